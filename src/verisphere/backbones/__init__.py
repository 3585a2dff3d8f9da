"""Backbones: networks from aligned images to embeddings, and the extraction of a whole set."""

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.efficientnet import EfficientNet
from verisphere.backbones.extract import extract
from verisphere.backbones.graph_network import GraphNetwork
from verisphere.backbones.group_face import GroupFace
from verisphere.backbones.iresnet import IResNet, SEResNet
from verisphere.backbones.mobilefacenet import MobileFaceNet
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.backbones.pixels import Pixels
from verisphere.backbones.sfnet import SFNet

__all__ = [
    "Backbone",
    "EfficientNet",
    "GraphNetwork",
    "GroupFace",
    "IResNet",
    "MobileFaceNet",
    "OnnxNetwork",
    "Pixels",
    "SEResNet",
    "SFNet",
    "extract",
]

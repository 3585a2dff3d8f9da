"""Backbones, and the road from images to embeddings."""

from verisphere.embed.backbone import Backbone
from verisphere.embed.extract import extract
from verisphere.embed.group_face import GroupFace
from verisphere.embed.iresnet import IResNet, SEResNet
from verisphere.embed.load import build_backbone
from verisphere.embed.mobilefacenet import MobileFaceNet
from verisphere.embed.pixels import Pixels
from verisphere.embed.sfnet import SFNet

__all__ = [
    "Backbone",
    "GroupFace",
    "IResNet",
    "MobileFaceNet",
    "Pixels",
    "SEResNet",
    "SFNet",
    "build_backbone",
    "extract",
]

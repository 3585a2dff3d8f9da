"""Faces in photos: boxes and five landmarks, and the crop aligned by them to a template."""

from verisphere.images.detect.alignment import TEMPLATES, Template, align, similarity, template_named
from verisphere.images.detect.crop import Crop, choose_face, crop_at, crop_face, why_none
from verisphere.images.detect.detections import Detections, FaceDetector
from verisphere.images.detect.detector import Detector
from verisphere.images.detect.named import detector_named

__all__ = [
    "TEMPLATES",
    "Crop",
    "Detections",
    "Detector",
    "FaceDetector",
    "Template",
    "align",
    "choose_face",
    "crop_at",
    "crop_face",
    "detector_named",
    "similarity",
    "template_named",
    "why_none",
]

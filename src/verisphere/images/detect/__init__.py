"""Faces in photos: boxes and five landmarks, and the crop aligned by them to a template."""

from verisphere.images.detect.alignment import TEMPLATES, Template, align, similarity, template_named
from verisphere.images.detect.crop import Crop, choose_face, crop_face, why_none
from verisphere.images.detect.detector import Detections, Detector

__all__ = [
    "TEMPLATES",
    "Crop",
    "Detections",
    "Detector",
    "Template",
    "align",
    "choose_face",
    "crop_face",
    "similarity",
    "template_named",
    "why_none",
]

"""Faces in photos: boxes and five landmarks, and the crop aligned by them to a template."""

from verisphere.detect.alignment import TEMPLATES, Template, align, similarity, template_named
from verisphere.detect.detector import Detections, Detector
from verisphere.detect.faces import Crop, choose_face, crop_face, why_none

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

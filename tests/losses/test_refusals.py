"""What each loss refuses, by the name of the argument; the scale, which all have, is asked of one."""

import math
from typing import Any

import pytest

from verisphere.losses.a_softmax import ASoftmax
from verisphere.losses.adaface import AdaFace
from verisphere.losses.am_lfs import AMLFS
from verisphere.losses.auxiliary import Intra, WeightedSum
from verisphere.losses.cifp import CIFP
from verisphere.losses.circle import Circle
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.curricular import CurricularFace
from verisphere.losses.domain_margins import DomainMargins
from verisphere.losses.elastic_face import ElasticFace
from verisphere.losses.magface import MagFace
from verisphere.losses.margin import CombinedMargin, NormFace
from verisphere.losses.mv_softmax import MVSoftmax
from verisphere.losses.noise_resistant import NoiseResistant
from verisphere.losses.noise_tolerant import NoiseTolerant
from verisphere.losses.search_softmax import SearchSoftmax
from verisphere.losses.softmax import Softmax
from verisphere.losses.sphereface2 import SphereFace2
from verisphere.losses.sphereface_r import SphereFaceR
from verisphere.losses.v_softmax import VSoftmax


@pytest.mark.parametrize(
    ("loss", "arguments", "message"),
    [
        (ASoftmax, {"margin": 0.5}, "margin is 0.5"),
        (ASoftmax, {"margin": math.nan}, "margin is nan"),
        (ASoftmax, {"start": 1.0}, "^start is 1.0 and end 5.0; "),
        (ASoftmax, {"end": -1.0}, "^start is 1000.0 and end -1.0; "),
        (ASoftmax, {"start": math.inf}, "^start is inf"),
        (ASoftmax, {"rate": -0.1}, "rate is -0.1"),
        (ASoftmax, {"gradient": "none"}, "allowed are exact, detached"),
        (AdaFace, {"margin": -0.1}, "margin is -0.1"),
        (AdaFace, {"margin": 23.0}, r"^margin is 23.0; it must be in \[0, pi / 2\]"),
        (AdaFace, {"h": 0.0}, "h is 0.0"),
        (AdaFace, {"h": math.inf}, "h is inf"),
        (AdaFace, {"rate": 0.0}, "rate is 0.0"),
        (AMLFS, {"slopes": (1.0, 1.0), "offsets": (0.0,)}, "^slopes has 2 numbers and offsets 1; each bin takes one"),
        (AMLFS, {"slopes": (), "offsets": ()}, "^slopes has 0 numbers and offsets 0"),
        (AMLFS, {"slopes": (1.0,), "offsets": (-0.1,)}, r"^slopes\[0\] is 1.0 and offsets\[0\] -0.1: bin 0 maps p in "),
        (AMLFS, {"slopes": (0.0,), "offsets": (0.0,)}, "bin 0"),
        (AMLFS, {"slopes": (1.0, -2.0), "offsets": (0.0, 1.5)}, r"^slopes\[1\] .*: bin 1 maps p in \[0.5, 1\]"),
        (AMLFS, {"slopes": (math.nan,), "offsets": (0.0,)}, "bin 0"),
        (AMLFS, {"slopes": (1.0,), "offsets": (math.inf,)}, "bin 0"),
        (WeightedSum, {"losses": []}, "losses is empty"),
        (WeightedSum, {"losses": [NormFace()], "weights": [1.0, 2.0]}, "weights has 2 numbers for 1 losses"),
        (WeightedSum, {"losses": [NormFace(), Intra()], "weights": [1.0, -1.0]}, r"weights are \[1.0, -1.0\]"),
        (WeightedSum, {"losses": [NormFace(), Intra()], "weights": [1.0, math.nan]}, "must be a finite number >= 0"),
        (WeightedSum, {"losses": [Softmax(), Intra()]}, r"class bias \(Softmax product, Intra cosine\)"),
        (CIFP, {"alpha": -1.0}, "alpha is -1.0"),
        (CIFP, {"alpha": math.nan}, "alpha is nan"),
        (CIFP, {"penalty": "cubed"}, "penalty is 'cubed'; allowed are counted, squared"),
        (CIFP, {"nearest": 0}, "nearest is 0"),
        (CIFP, {"threshold": "theirs"}, "threshold is 'theirs'; allowed are overall, released"),
        (CIFP, {"far": "2"}, "a FAR must lie between 0 and 1"),
        (CIFP, {"margin": -0.1}, "^margin is -0.1"),
        (Circle, {"margin": -0.1}, r"^margin is -0.1; it must be in \[0, 1\)"),
        (Circle, {"margin": 1.0}, "^margin is 1.0"),
        (Circle, {"margin": math.nan}, "^margin is nan"),
        (CurricularFace, {"rate": 0.0}, "rate is 0.0"),
        (CurricularFace, {"rate": 1.5}, "rate is 1.5"),
        (CurricularFace, {"margin": 30.0}, "^margin is 30.0; .* is it in degrees"),
        (DomainMargins, {"margins": {}}, "^margins is empty"),
        (DomainMargins, {"margins": {"day": -0.1}}, "^margins: that of day is -0.1; of kind 'cosine' it must be a num"),
        (
            DomainMargins,
            {"margins": {"day": 0.1, "night": math.inf}},
            "^margins: that of night is inf; of kind",
        ),
        (
            DomainMargins,
            {"margins": {"day": math.nan}, "kind": "angle"},
            "^margins: that of day is nan; of kind",
        ),
        (DomainMargins, {"margins": {"day": 28.6}, "kind": "angle"}, r"is 28.6; .* it must be in \[0, pi\) radians"),
        (ElasticFace, {"kind": "Sphere"}, "kind is 'Sphere'; allowed are Arc, Cos"),
        (ElasticFace, {"margin": 30.0}, "margin is 30.0; .* is it in degrees"),
        (ElasticFace, {"kind": "Cos", "margin": -0.1}, "margin is -0.1; that of kind 'Cos'"),
        (ElasticFace, {"kind": "Cos", "margin": math.inf}, "margin is inf"),
        (ElasticFace, {"deviation": -0.05}, "deviation is -0.05"),
        (ElasticFace, {"deviation": math.nan}, "deviation is nan"),
        (MagFace, {"shortest": 0.0}, "^shortest is 0.0 and longest 110.0"),
        (MagFace, {"shortest": 120.0}, "^shortest is 120.0 and longest 110.0; both must be positive, shortest below"),
        (MagFace, {"longest": math.inf}, "and longest inf"),
        (MagFace, {"least_margin": 0.9}, "^least_margin is 0.9 and most_margin 0.8"),
        (MagFace, {"most_margin": 45.0}, "and most_margin 45.0; both must be in .* radians"),
        (MagFace, {"weight": -1.0}, "weight is -1.0"),
        (CombinedMargin, {"m1": 0.0}, "m1 is 0.0"),
        (CombinedMargin, {"m1": math.inf}, "m1 is inf"),
        (CombinedMargin, {"m2": 28.6}, r"m2 is 28.6; it must be in \[0, pi\) radians: is it in degrees"),
        (CombinedMargin, {"m2": -0.1}, "m2 is -0.1"),
        (CombinedMargin, {"m3": -0.35}, "m3 is -0.35"),
        (CombinedMargin, {"scale": 0.0}, "scale is 0.0"),
        (CombinedMargin, {"scale": math.nan}, "scale is nan"),
        (CombinedMargin, {"gradient": "none"}, "allowed are exact, detached"),
        (CombinedMargin, {"beyond": "easy"}, "allowed are monotone, plain, released"),
        (CombinedMargin, {"m1": 1.35, "beyond": "released"}, "m1 = 1 only"),
        (CombinedMargin, {"t": 0.0}, "t is 0.0; the similarity adjustment takes"),
        (MVSoftmax, {"kind": "NV"}, "kind is 'NV'; allowed are AM, Arc"),
        (MVSoftmax, {"emphasis": -0.1}, "^emphasis is -0.1"),
        (MVSoftmax, {"emphasis": math.nan}, "is nan"),
        (MVSoftmax, {"weighting": "none"}, "allowed are adaptive, fixed"),
        (MVSoftmax, {"margin": 20.0}, "^margin is 20.0; .* is it in degrees"),
        (MVSoftmax, {"kind": "AM", "margin": -0.3}, "^margin is -0.3"),
        (NoiseResistant, {"beta": -0.1}, "beta is -0.1"),
        (NoiseResistant, {"beta": math.nan}, "beta is nan"),
        (NoiseResistant, {"beta": 1.5}, "beta is 1.5; the share of the given label must be in"),
        (NoiseResistant, {"m2": 30.0}, "^m2 is 30.0; .* is it in degrees"),
        (NoiseTolerant, {"window": 0}, "window is 0; the histogram takes at least 1 batch"),
        (NoiseTolerant, {"m2": 30.0}, "^m2 is 30.0; .* is it in degrees"),
        (SearchSoftmax, {"factor": 1.0}, "^factor is 1.0; it must be a finite number below 1"),
        (SearchSoftmax, {"factor": math.nan}, "^factor is nan"),
        (SearchSoftmax, {"factor": -math.inf}, "^factor is -inf"),
        (SphereFace2, {"kind": "B"}, "kind is 'B'; allowed are C, A, M"),
        (SphereFace2, {"gradient": "none"}, "allowed are paper, released"),
        (SphereFace2, {"margin": -0.1}, "^margin is -0.1 with kind 'C'; it must be a number >= 0"),
        (SphereFace2, {"margin": math.nan}, "^margin is nan with kind 'C'"),
        (SphereFace2, {"kind": "A", "margin": 28.6}, "is it in degrees"),
        (SphereFace2, {"kind": "M", "margin": 0.5}, "a factor >= 1"),
        (SphereFace2, {"negative_margin": -1.0}, "negative_margin is -1.0"),
        (SphereFace2, {"balance": 1.0}, "^balance is 1.0"),
        (SphereFace2, {"balance": "even"}, "^balance is 'even'"),
        (SphereFace2, {"t": 0.0}, "t is 0.0; the similarity adjustment takes a finite number > 0"),
        (SphereFace2, {"loss_weight": 0.0}, "loss_weight is 0.0"),
        (SphereFaceR, {"margin": 0.9}, "margin is 0.9"),
        (SphereFaceR, {"margin": math.inf}, "margin is inf"),
        (SphereFaceR, {"gradient": "released"}, "gradient is 'released'; allowed are exact, detached"),
        (VSoftmax, {"virtual": "both"}, "virtual is 'both'; allowed are own, batch"),
    ],
)
def test_a_loss_names_the_argument_that_it_refuses(loss: type[ClassLoss], arguments: dict[str, Any], message: str):
    # The shape checks of the test run refuse a name outside a Literal before our own check can: call the latter bare.
    bare = getattr(loss.__init__, "__wrapped__", loss.__init__)
    with pytest.raises(ValueError, match=message):
        bare(loss.__new__(loss), **arguments)

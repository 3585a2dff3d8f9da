"""A run with limits of a graph with several outputs; tests/models/test_foreign_onnx.py has what it refuses."""

from blue_squares import write_blue_squares
from verisphere.files.limited_run import run_limited


def test_the_first_output_and_all_of_them(tmp_path):
    path = write_blue_squares(tmp_path / "squares.onnx")
    asked = {"input": "input", "outputs": ["kps_32", "cls_8"], "shape": [3, 64, 96], "numbers": "float32",
             "mean": 0.0, "scale": 1.0}  # fmt: skip
    ran = run_limited(path.read_bytes(), path, asked, [1])
    assert list(ran) == [1]
    assert ran[1]["shape"] == [1, 6, 10]
    assert ran[1]["finite"] is True

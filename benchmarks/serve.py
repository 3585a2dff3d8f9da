"""A gallery as a service under load on loopback, beside plain onnxruntime behind FastAPI.

    python benchmarks/serve.py MODEL GALLERY FACES.zip [--seconds 4] [--rounds 3] [--workers 1]

MODEL is a model folder of an ONNX file with a threshold for two photographs, GALLERY one of it, FACES a zip of aligned
faces. Both services have as many processes as `--workers` says, each with one thread for the network, and both verify
two photographs; the peer decodes them with Pillow and embeds each by itself in FastAPI's threads, as tutorials do it.
1, 8 and 64 clients, in a process of their own, each ask anew once they are answered. A row has the medians over the
rounds, in which the two take turns; the CPU seconds are the service's for a request, and depend less on what else the
machine does.
"""

import argparse
import asyncio
import io
import itertools
import os
import statistics
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Annotated

import numpy as np
import onnxruntime
import torch
from fastapi import FastAPI, File, UploadFile
from harness import write
from PIL import Image

CLIENTS, OURS, PEER = (1, 8, 64), "verisphere serve", "onnxruntime behind FastAPI"
MODEL = "VERISPHERE_BENCHMARK_MODEL"  # where the peer's processes read which model they serve


def peer(model: Path) -> FastAPI:
    """Two photographs compared, each embedded by itself."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model / "network.onnx"), options, providers=["CPUExecutionProvider"])
    name, app = session.get_inputs()[0].name, FastAPI()

    def unit(upload: UploadFile) -> np.ndarray:
        pixels = np.asarray(Image.open(io.BytesIO(upload.file.read())).convert("RGB"), np.float32)
        row = session.run(None, {name: pixels.transpose(2, 0, 1)[None]})[0][0]
        return row / np.linalg.norm(row)

    @app.post("/v1/verify")
    def verify(left: Annotated[UploadFile, File()], right: Annotated[UploadFile, File()]) -> dict[str, float]:
        return {"score": float(unit(left) @ unit(right))}

    return app


def peer_of_environment() -> FastAPI:
    """The peer, as each of several processes makes it."""
    torch.set_num_threads(1)
    return peer(Path(os.environ[MODEL]))


def started(ours: bool, options: argparse.Namespace, port: str) -> subprocess.Popen[bytes]:
    """A service that begins to listen at a port."""
    here, workers = os.environ | {"OMP_NUM_THREADS": "1"}, str(options.workers)
    if ours:
        command = ["verisphere", "serve", str(options.gallery), "--model", str(options.model), "--aligned"]
        command += ["--rate", "1e9", "--concurrent", "1000", "--seconds", "60"]
    else:
        command = ["uvicorn", "--factory", "serve:peer_of_environment", "--app-dir", str(Path(__file__).parent)]
        command += ["--log-level", "error", "--no-access-log"]
        here |= {MODEL: str(options.model)}
    command = [sys.executable, "-m", *command, "--port", port, "--workers", workers]
    return subprocess.Popen(command, env=here, stderr=subprocess.DEVNULL)


def requests_of(faces: Path) -> list[bytes]:
    """Requests of two photographs each, as bytes."""
    with zipfile.ZipFile(faces) as archive:
        photographs = [archive.read(name) for name in archive.namelist()[:200] if name.endswith(".jpg")]
    found = []
    for left, right in itertools.pairwise(photographs):
        part = b'--x\r\nContent-Disposition: form-data; name="%s"; filename="a.jpg"\r\n\r\n%s\r\n'
        body = part % (b"left", left) + part % (b"right", right) + b"--x--\r\n"
        head = "POST /v1/verify HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        found.append(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return found


async def load_test(port: int, clients: int, seconds: float, sent: list[bytes]) -> list[float]:
    """Seconds of each answer."""
    took, end = [], time.perf_counter() + seconds

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            began = time.perf_counter()
            writer.write(sent[(number + len(took)) % len(sent)])
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.splitlines()[0]:
                raise SystemExit(head.decode())
            length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*map(client, range(clients)))
    return took


def cpu_of(process: int) -> float:
    """CPU seconds that a process and those that it has started have taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_of, map(int, children)))


async def when_open(port: int) -> None:
    while True:
        try:
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
        except OSError:
            await asyncio.sleep(0.1)
        else:
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("gallery", type=Path)
    parser.add_argument("faces", type=Path)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    sent, ports = requests_of(options.faces), {OURS: "8471", PEER: "8472"}
    processes = {name: started(name == OURS, options, port) for name, port in ports.items()}
    try:
        for port in ports.values():
            asyncio.run(asyncio.wait_for(when_open(int(port)), 120))
            asyncio.run(load_test(int(port), 8, 1, sent))
        for clients in CLIENTS:
            rounds: dict[str, list[tuple[float, ...]]] = {name: [] for name in ports}
            for _ in range(options.rounds):
                for name, port in ports.items():
                    began, before = time.perf_counter(), cpu_of(processes[name].pid)
                    took = sorted(asyncio.run(load_test(int(port), clients, options.seconds, sent)))
                    p50, p99 = took[len(took) // 2], took[min(len(took) * 99 // 100, len(took) - 1)]
                    wall, cpu = time.perf_counter() - began, cpu_of(processes[name].pid) - before
                    rounds[name].append((wall / len(took), cpu / len(took), p50, p99))
            for name, measured in rounds.items():
                wall, cpu, p50, p99 = map(statistics.median, zip(*measured, strict=True))
                note = f"onnxruntime {onnxruntime.__version__}, p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms"
                case = f"verify two photographs, {clients} clients, {options.workers} processes"
                write("serve", case, name, wall, cpu, 1, "requests", options.rounds, note)
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()

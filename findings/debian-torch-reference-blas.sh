#!/usr/bin/env bash
# Debian 12's python3-torch 1.13.1 calculates with the reference BLAS unless another one is installed.
#
# One expects: PyTorch of a distribution multiplies matrices about as fast as PyPI's, which brings MKL or
# OpenBLAS. 32-bit Raspberry Pis, for which PyPI has no wheel, get it by apt.
# It happens: libtorch1.13 depends on "libblas3 | libblas.so.3". The first of them is Netlib's reference
# BLAS, which apt takes where none is installed yet. One step of a small network (784-200-200-62, batch 32)
# takes several times the processor time that it takes with libopenblas0-pthread, on the same machine.
# torch.__config__.show() says BLAS_INFO=generic with either; /proc/self/maps tells them apart. The remedy
# is apt install libopenblas0.
# Why it matters: a device's measured seconds a step, and with them its class, its deadline and the whole
# plan of a fleet, are off by that factor; two devices of one model look like different hardware; and a
# benchmark of federated frameworks on Debian's PyTorch measures the BLAS more than the framework.
set -euo pipefail
version=1.13.1+dfsg-4
installed=$(dpkg-query -W -f '${Version}' python3-torch 2>/dev/null || true)
if [ "$installed" != "$version" ]; then
	echo "this needs Debian 12 with python3-torch $version (here: ${installed:-none})" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq libblas3=3.11.0-2 libopenblas0-pthread=0.3.21+ds-4 libgfortran5 2>/dev/null
mkdir reference openblas
dpkg -x libblas3_*.deb reference
dpkg -x libopenblas0-pthread_*.deb openblas
dpkg -x libgfortran5_*.deb openblas
cat > step.py <<'END'
import re
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 62))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 784), torch.randint(62, (32,))


def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


step()
times = []
for _ in range(40):
    began = time.process_time()
    step()
    times.append(time.process_time() - began)
loaded = re.findall(r"\S+/(?:lib)?(\w*blas\w*)[-.\w]*\.so\S*", open("/proc/self/maps").read())
print(f"{1000 * min(times):.2f} {','.join(sorted(set(loaded)))}")
END
folder() { dirname "$(find "$1" -name libblas.so.3 | head -1)"; }
run() { OPENBLAS_NUM_THREADS=1 LD_LIBRARY_PATH="$1" /usr/bin/python3 step.py; }
reference=$(run "$(folder reference)")
fortran=$(dirname "$(find openblas -name 'libgfortran.so.5' | head -1)")
openblas=$(run "$PWD/$(folder openblas):$PWD/$(dirname "$(folder openblas)"):$PWD/$fortran")
/usr/bin/python3 -c 'import torch; print("torch", torch.__version__)'
echo "milliseconds of processor time a step, and the library: reference $reference; OpenBLAS $openblas"
/usr/bin/python3 -c '
import sys
slow, fast = (float(text.split()[0]) for text in sys.argv[1:])
print(f"{slow / fast:.1f} times")
sys.exit(slow < 2 * fast)' "$reference" "$openblas"

# SPDX-License-Identifier: Apache-2.0
"""A Linux of its own for a test: Debian's kernel under QEMU, an initramfs made on the spot.

    guest = Guest(script="...", programs=["/path/to/program"], disk="unix socket", port=9000)
    guest.start(); guest.wait_for("ready"); ...; guest.kill()

The script runs as root with busybox's commands, what it prints is in `guest.log`. The network is
QEMU's user mode, restricted: nothing leaves the guest, and only a loopback port of the host leads
in. Needs (Debian): qemu-system-x86 busybox-static kmod, and apt-get to fetch the kernel once."""
import ctypes
import glob
import gzip
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

MODULES = ["virtio_pci", "virtio_blk", "virtio_net", "ext4", "crc32c_generic"]
BUSYBOX = "/bin/busybox"

INIT = r"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /data /root
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/shm; mount -t tmpfs t /dev/shm
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root
for m in /modules/*.ko; do insmod $m; done
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
ulimit -l unlimited; ulimit -n 65536
sh /script; rc=$?
sync
echo; echo "guest-exit:$rc"
poweroff -f
"""


class GuestError(Exception):
    pass


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.path.join(base, "s3rdma", "guest")
    os.makedirs(path, exist_ok=True)
    return path


def kernel():
    """The kernel and the folder of its modules, unpacked from Debian's package, not installed."""
    cache = cache_dir()
    done = os.path.join(cache, "kernel")
    if not os.path.isdir(done):
        _unpack_kernel(cache, done)
    return glob.glob(done + "/boot/vmlinuz-*")[0], done


def _kernel_package():
    out = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True,
                         text=True, check=False).stdout
    found = re.search(r"Depends: (linux-image-[0-9]\S+)", out)
    return found and found[1]


def _unpack_kernel(cache, done):
    name = _kernel_package()
    if not name and os.geteuid() == 0:  # a machine whose package lists were cleaned away
        subprocess.run(["apt-get", "-qq", "update"], capture_output=True, check=False)
        name = _kernel_package()
    if not name:
        raise GuestError("apt knows no linux-image-amd64 here: run apt-get update")
    with tempfile.TemporaryDirectory(dir=cache) as work:
        got = subprocess.run(["apt-get", "download", "-qq", name], cwd=work,
                             capture_output=True, text=True, check=False)
        debs = glob.glob(work + "/*.deb")
        if not debs:
            raise GuestError(f"apt-get download {name}: {got.stderr.strip()}")
        subprocess.run(["dpkg", "-x", debs[0], work + "/kernel"], check=True)
        # Debian 12 keeps /lib a link to /usr/lib; the package has either.
        root = work + "/kernel"
        if not os.path.isdir(root + "/lib/modules") and os.path.isdir(root + "/usr/lib/modules"):
            os.symlink("usr/lib", root + "/lib")
        version = os.listdir(root + "/lib/modules")[0]
        subprocess.run(["/sbin/depmod", "-b", root, version], check=True, capture_output=True)
        try:
            os.rename(root, done)
        except OSError:  # another test was quicker
            if not os.path.isdir(done):
                raise


def modules(root, names):
    """Files of the modules and of what they need, in the order of loading."""
    version = os.listdir(root + "/lib/modules")[0]
    files = []
    for name in names:
        out = subprocess.run(["/sbin/modprobe", "-d", root, "-S", version, "--show-depends", name],
                             capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"^insmod (\S+)", out, re.M):
            if path not in files:
                files.append(path)
    return files


def libraries(program):
    """The program's interpreter and shared libraries, by the names it asks for."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    if "not found" in out:
        raise GuestError(f"{program}: {out}")
    return re.findall(r"(/\S+) \(0x", out)


class Initramfs:
    """A cpio archive (newc), written entry by entry; a path that is there already is left out."""

    def __init__(self, path):
        self.out = gzip.open(path, "wb", compresslevel=1)
        self.seen = set()
        self.number = 0

    def _entry(self, name, mode, data=b""):
        if name in self.seen:
            return
        parent = os.path.dirname(name)
        if parent and parent not in self.seen:
            self._entry(parent, stat.S_IFDIR | 0o755)
        self.seen.add(name)
        self.number += 1
        encoded = name.encode() + b"\0"
        fields = (self.number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + encoded
        self.out.write(head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4))

    def add(self, path, data, mode=0o644):
        self._entry(path.lstrip("/"), stat.S_IFREG | mode, data)

    def bring(self, path, to=None):
        """A file of the host, with the libraries that it needs when it is a program."""
        with open(path, "rb") as f:
            data = f.read()
        self.add(to or path, data, 0o755 if os.access(path, os.X_OK) else 0o644)
        if data[:4] == b"\x7fELF":
            for library in libraries(path):
                if library.lstrip("/") not in self.seen:
                    with open(library, "rb") as f:
                        self.add(library, f.read(), 0o755)

    def close(self):
        self.number = 0
        self._entry("TRAILER!!!", 0)
        self.out.close()


def accelerator():
    """kvm where it really runs a kernel (a /dev/kvm that opens may yet hang), else emulation.
    S3RDMA_GUEST_ACCEL decides otherwise; what was found is kept until this machine boots again."""
    given = os.environ.get("S3RDMA_GUEST_ACCEL")
    if given:
        return given
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        kept = os.path.join(cache_dir(), "accel-" + f.read().strip())
    if os.path.exists(kept):
        with open(kept, encoding="ascii") as f:
            return f.read().strip()
    probe = Guest("exit 0", memory_mib=256, accel="kvm")
    try:
        probe.start()
        works = probe.wait_exit(12) == 0
    except GuestError:
        works = False
    finally:
        probe.close()
    with open(kept, "w", encoding="ascii") as f:
        f.write("kvm" if works else "tcg")
    return "kvm" if works else "tcg"


def die_with_parent():
    """For the child before it executes: no guest outlives a test that was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Guest:
    """`programs`: files of the host, at the same path in the guest. `disk`: the socket of a
    nbd_cut.CutDisk, /dev/vda in the guest. `port`: a port of the guest; `host_port` leads there."""

    def __init__(self, script, programs=(), disk=None, port=None, memory_mib=1536, extra=(),
                 kernel_modules=(), accel=None):
        self.accel = accel or accelerator()
        self.work = tempfile.mkdtemp(prefix="s3rdma-guest.")
        self.log = os.path.join(self.work, "console")
        self.disk, self.port, self.memory_mib = disk, port, memory_mib
        self.host_port = free_port() if port else None
        self.process = None
        self.vmlinuz, root = kernel()
        self.initrd = os.path.join(self.work, "initrd.gz")
        archive = Initramfs(self.initrd)
        archive.bring(BUSYBOX, "/bin/busybox")
        archive.add("/init", INIT.encode(), 0o755)
        archive.add("/script", script.encode(), 0o755)
        for n, path in enumerate(modules(root, [*MODULES, *kernel_modules])):
            archive.bring(path, f"/modules/{n:03}-{os.path.basename(path)}")
        for program in programs:
            archive.bring(os.path.abspath(program))
        for path, data in extra:
            archive.add(path, data, 0o755)
        archive.close()

    def command(self):
        accel = "tcg,thread=multi" if self.accel == "tcg" else self.accel
        net = "user,id=n0,restrict=on"
        if self.port:
            net += f",hostfwd=tcp:127.0.0.1:{self.host_port}-10.0.2.15:{self.port}"
        command = ["qemu-system-x86_64", "-accel", accel]
        command += ["-cpu", "max", "-smp", "2", "-m", str(self.memory_mib), "-nodefaults",
                    "-display", "none", "-no-reboot", "-serial", "file:" + self.log,
                    "-kernel", self.vmlinuz, "-initrd", self.initrd,
                    "-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on",
                    "-netdev", net, "-device", "virtio-net-pci,netdev=n0,romfile="]
        if self.disk:
            command += ["-blockdev", f"nbd,node-name=d0,server.type=unix,server.path={self.disk}",
                        "-device", "virtio-blk-pci,drive=d0"]
        return command

    def start(self):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL,
                                        stderr=open(self.log + ".qemu", "wb"),
                                        preexec_fn=die_with_parent)

    def console(self):
        try:
            with open(self.log, "rb") as f:
                return f.read().decode("utf-8", "replace").replace("\r", "")
        except FileNotFoundError:
            return ""

    def _fault(self, what):
        with open(self.log + ".qemu", "rb") as f:
            said = f.read().decode("utf-8", "replace")
        return GuestError(f"{what}\n{said[-2000:]}\n{self.console()[-6000:]}")

    def wait_for(self, pattern, within=180):
        """The match of `pattern` in what the guest printed."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            is_over = self.process.poll() is not None
            found = re.search(pattern, self.console(), re.M)
            if found:
                return found
            if is_over:
                raise self._fault(f"the guest ended before it said {pattern}")
            time.sleep(0.05)
        raise self._fault(f"the guest did not say {pattern} within {within} s")

    def wait_exit(self, within=300):
        """The exit status of the script."""
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise self._fault(f"the guest did not end within {within} s") from None
        found = re.findall(r"^guest-exit:(\d+)$", self.console(), re.M)
        if not found:
            raise self._fault("the guest's script did not end")
        return int(found[-1])

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def close(self):
        self.kill()
        shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()


def make_disk(path, mib):
    """An empty ext4 in a sparse file. Without checksums of its metadata: with them a commit block of
    the journal that the cut tore is no end of the journal to ext4 but damage, and it does not mount.
    A sector arrives whole or not at all, which is all that a journal without them asks of a disk."""
    with open(path, "wb") as f:
        f.truncate(mib << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", "-O", "^metadata_csum",
                    "-E", "lazy_itable_init=1,nodiscard", path], check=True, capture_output=True)

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the recordings in tests/fixtures/progress, as root: `tests/progress/record.py MPWATCH`. Takes four minutes.

Each cell is a sender with one to three paths, a load and an incident, in namespaces of its own. Names of cells as further arguments select
the cells to record. One `mpwatch record` observes a batch of cells; its events are then divided by the sender's namespace. `truth.tsv` has
values from other sources: the kernel's retransmission timeouts in a row on each path (`ss`), and the longest time in which the receiving
program received nothing.
"""
import json, os, re, socket, subprocess, sys, threading, time

INCIDENT, RECOVERY, END = 4.0, 5.0, 14.0
BATCH = 8
LOADS = ["full", "half", "one", "bursty"]
CELLS = (
    [(1, load, incident) for load in LOADS for incident in ["none", "dead", "pause", "short", "long", "killed"]]
    + [(2, load, incident) for load in LOADS for incident in ["dead", "all", "backup", "removed", "pause"]]
    + [(2, "idle", incident) for incident in ["none", "all"]]
    + [(3, load, incident) for load in LOADS[1:] for incident in ["none", "dead", "all", "long", "removed"]]
)
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "progress")


def serve(pause):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    if pause:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    listener.bind(("0.0.0.0", 7000))
    listener.listen()
    peer, _ = listener.accept()
    begun = last = time.monotonic()
    longest = 0
    while True:
        if pause and time.monotonic() - begun > INCIDENT - 0.5:
            time.sleep(pause)
            pause = 0
        data = peer.recv(1 << 16)
        longest = max(longest, time.monotonic() - last)
        last = time.monotonic()
        if not data:
            break
        print(round(longest * 1e3), flush=True)


def send(load, paths):
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    client.connect(("10.210.1.1", 7000))
    client.settimeout(END)
    print("connected", flush=True)
    begun = time.monotonic()
    chunk, every = {"full": (65536, 0), "half": (paths * 12500, 0.05), "one": (600, 0.1), "bursty": (65536, 0.7),
                    "idle": (1000, END)}[load]
    sent = 0
    try:
        while time.monotonic() - begun < END - 1:
            client.sendall(bytes(chunk))
            sent += 1
            time.sleep(max(0, min(sent * every, END - 1) - (time.monotonic() - begun)) if every else 0)
    except OSError:
        pass


def run(*command, **options):
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


def inside(namespace, *command):
    return run("ip", "netns", "exec", namespace, *command)


class Cell:
    def __init__(self, number, cell):
        self.paths, self.load, self.incident = cell
        self.name = f"{self.paths}-{self.load}-{self.incident}"
        self.client, self.server = f"prog-{number}-c", f"prog-{number}-s"
        self.backoff = [0] * self.paths
        self.gap = 0

    def build(self):
        for namespace in (self.client, self.server):
            run("ip", "netns", "add", namespace)
            run("ip", "-n", namespace, "link", "set", "lo", "up")
            inside(namespace, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
            run("ip", "-n", namespace, "mptcp", "limits", "set", "subflows", "8", "add_addr_accepted", "8")
        for path in range(1, self.paths + 1):
            c, s = f"c{path}", f"s{path}"
            run("ip", "-n", self.client, "link", "add", c, "type", "veth", "peer", "name", s, "netns", self.server)
            for namespace, link, host in ((self.client, c, 2), (self.server, s, 1)):
                run("ip", "-n", namespace, "addr", "add", f"10.210.{path}.{host}/24", "dev", link)
                run("ip", "-n", namespace, "link", "set", link, "up")
            run("ip", "-n", self.client, "rule", "add", "from", f"10.210.{path}.2", "table", str(100 + path))
            run("ip", "-n", self.client, "route", "add", "default", "via", f"10.210.{path}.1", "dev", c, "table",
                str(100 + path))
            if self.load in ("full", "half"):
                run("tc", "-n", self.client, "qdisc", "add", "dev", c, "root", "tbf", "rate", "4mbit", "burst", "32k",
                    "latency", "60ms")
            if path > 1:
                kind = ["subflow", "backup"] if self.incident == "backup" else ["subflow"]
                run("ip", "-n", self.client, "mptcp", "endpoint", "add", f"10.210.{path}.2", "id", str(path), "dev", c,
                    *kind)

    def drop(self):
        which = [] if self.incident == "all" else ["iifname", "s1"]
        inside(self.server, "nft", "add table ip t; add chain ip t in { type filter hook input priority 0; }; "
               f"add rule ip t in {' '.join(which)} drop")

    def play(self):
        me = os.path.abspath(__file__)
        options = {"stdout": subprocess.PIPE, "text": True}
        pause = "4" if self.incident == "pause" else "0"
        server = subprocess.Popen(["ip", "netns", "exec", self.server, sys.executable, me, "serve", pause], **options)
        time.sleep(1)
        client = subprocess.Popen(
            ["ip", "netns", "exec", self.client, sys.executable, me, "send", self.load, str(self.paths)], **options)
        client.stdout.readline()
        begun = time.monotonic()
        done = recovered = False
        while client.poll() is None and time.monotonic() - begun < END + 2:
            now = time.monotonic() - begun
            if now >= INCIDENT and not done:
                done = True
                if self.incident in ("dead", "all", "backup", "short", "long"):
                    self.drop()
                elif self.incident == "removed":
                    run("ip", "-n", self.client, "mptcp", "endpoint", "del", "id", str(self.paths))
                elif self.incident == "killed":
                    server.kill()
            until = {"short": 0.25, "long": RECOVERY}.get(self.incident)
            if until and now >= INCIDENT + until and not recovered:
                recovered = True
                inside(self.server, "nft", "delete", "table", "ip", "t")
            self.poll()
            time.sleep(0.05 if self.incident == "short" else 0.4)
        for process in (client, server):
            process.kill()
        output = server.communicate()[0].split()
        client.communicate()
        self.gap = int(output[-1]) if output else 0

    def poll(self):
        for line in inside(self.client, "ss", "-tinOH").stdout.splitlines():
            local = re.search(r"10\.210\.(\d)\.2[:%]", line)
            backoff, unacked = re.search(r" backoff:(\d+)", line), re.search(r" unacked:", line)
            if line.startswith("ESTAB") and local and backoff and unacked:
                place = int(local[1]) - 1
                self.backoff[place] = max(self.backoff[place], int(backoff[1]))

    def remove(self):
        for namespace in (self.client, self.server):
            run("ip", "netns", "del", namespace)


def split(recording, cells):
    """Divides the events of a recording among the cells."""
    lines = [json.loads(line) for line in run("zstdcat", recording).stdout.splitlines()]
    cookies = {event["netns"]["name"]: event["netns"]["netns"] for event in lines
               if isinstance(event, dict) and "netns" in event}
    for cell in cells:
        cookie, known, kept = cookies.get(cell.client), set(), []
        for event in lines:
            kind, body = next(iter(event.items()))
            if kind in ("subflow", "connection"):
                if body["netns"] != cookie:
                    continue
                known.add(body["id"] if kind == "subflow" else body["msk"]["cookie"])
            elif kind == "netns" and body["netns"] != cookie:
                continue
            elif kind in ("subflow_unchanged", "connection_unchanged") and body not in known:
                continue
            elif kind in ("samples", "cgroup", "pod"):
                continue
            kept.append(json.dumps(event, separators=(",", ":")))
        # Ticks after the last record are not needed.
        while len(kept) > 2 and kept[-2].startswith('{"tick"'):
            kept.pop()
        path = os.path.join(FOLDER, f"{cell.name}.mpw")
        subprocess.run(["zstd", "-q", "-19", "-f", "-o", path], input="\n".join(kept) + "\n", text=True, check=True)


def main(program, names):
    os.makedirs(FOLDER, exist_ok=True)
    file = os.path.join(FOLDER, "truth.tsv")
    truth = {}
    if names:
        with open(file) as rows:
            truth = {row.split("\t")[0]: row.rstrip("\n") for row in rows.readlines()[1:]}
    wanted = [cell for cell in CELLS if not names or "-".join(map(str, cell)) in names]
    for first in range(0, len(wanted), BATCH):
        cells = [Cell(number, cell) for number, cell in enumerate(wanted[first:first + BATCH])]
        recording = "/tmp/progress-batch.mpw"
        recorder = None
        try:
            for cell in cells:
                cell.build()
            recorder = subprocess.Popen(
                [program, "record", recording, "--force", "--interval", "1s", "--ledger", "off", "--no-bottlenecks"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(3)
            threads = [threading.Thread(target=cell.play) for cell in cells]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(2)
        finally:
            if recorder:
                recorder.terminate()
                recorder.wait()
            for cell in cells:
                cell.remove()
        split(recording, cells)
        os.remove(recording)
        for cell in cells:
            truth[cell.name] = f"{cell.name}\t{','.join(map(str, cell.backoff))}\t{cell.gap}"
            print(truth[cell.name], flush=True)
    with open(file, "w") as out:
        out.write("\n".join(["cell\tbackoff\tgap_ms", *(truth[name] for name in sorted(truth))]) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(float(sys.argv[2]))
    elif sys.argv[1] == "send":
        send(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1], sys.argv[2:])

-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Version 1. The views are what others may rely on (docs/store.md); the tables are ours and laid out to be small: words are
-- numbers of `name`, times are nanoseconds after the beginning of their connection, tokens are signed.

CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    kernel TEXT NOT NULL,
    mpwatch TEXT NOT NULL,
    from_ns INTEGER NOT NULL,
    to_ns INTEGER NOT NULL,
    missing TEXT NOT NULL,
    losses TEXT NOT NULL,
    counters TEXT NOT NULL,
    cpus TEXT,
    energy TEXT,
    snapshots_dropped INTEGER NOT NULL,
    flows_lost INTEGER NOT NULL,
    samples_lost INTEGER NOT NULL
) STRICT;

CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE netns (
    id INTEGER PRIMARY KEY,
    cookie INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (cookie, inode, name)
) STRICT;

-- A connection has one row, however many runs see it: boot, netns, token and birth tell it from all others. run: the last one that saw it.
-- flags: 1 seen open, 2 closed, 4 the timeline has its opening, 8 and its end; both by tracepoint and at exactly these times.
CREATE TABLE connection (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    netns INTEGER NOT NULL,
    token INTEGER NOT NULL,
    birth INTEGER NOT NULL,
    remote_token INTEGER,
    flags INTEGER NOT NULL,
    role INTEGER,
    protocol INTEGER NOT NULL,
    state INTEGER NOT NULL,
    fallback INTEGER,
    pid INTEGER,
    comm INTEGER,
    cgroup INTEGER,
    local_ip INTEGER,
    local_port INTEGER,
    remote_ip INTEGER,
    remote_port INTEGER,
    began_ns INTEGER NOT NULL,
    age_ns INTEGER NOT NULL,
    bytes_sent INTEGER,
    bytes_acked INTEGER,
    bytes_received INTEGER,
    bytes_reinjected INTEGER,
    mptcp_bytes_retransmitted INTEGER,
    send_bps INTEGER NOT NULL,
    receive_bps INTEGER NOT NULL,
    flow_class INTEGER NOT NULL,
    excess_ratio REAL,
    jain_index REAL,
    second_path_after_us INTEGER,
    second_path_after_bytes INTEGER,
    second_path_effective_after_bytes INTEGER,
    extra_subflows INTEGER,
    bottlenecks TEXT
) STRICT;

-- What another run may see again.
CREATE INDEX connection_open ON connection (run) WHERE flags & 2 = 0;

-- id: that of the connection times 4096, plus the place in it (1 is the first).
-- flags: 1 initial, 2 backup, 4 stale, 8 the timeline has its SYN, 16 and its end; both by tracepoint and at exactly these times.
CREATE TABLE subflow (
    id INTEGER PRIMARY KEY,
    cookie INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    local_ip INTEGER NOT NULL,
    local_port INTEGER NOT NULL,
    remote_ip INTEGER NOT NULL,
    remote_port INTEGER NOT NULL,
    local_id INTEGER NOT NULL,
    remote_id INTEGER NOT NULL,
    interface INTEGER,
    state INTEGER NOT NULL,
    created_after_ns INTEGER,
    established_after_ns INTEGER,
    handshake_us INTEGER,
    joined_after_us INTEGER,
    joined_after_bytes INTEGER,
    bytes_sent INTEGER NOT NULL,
    bytes_acked INTEGER NOT NULL,
    bytes_received INTEGER NOT NULL,
    bytes_retransmitted INTEGER NOT NULL,
    segments_retransmitted INTEGER NOT NULL,
    retransmits_fast INTEGER,
    retransmits_timeout INTEGER,
    retransmits_probe INTEGER,
    rtt_us INTEGER,
    srtt_us INTEGER,
    rttvar_us INTEGER,
    rtt_min_us INTEGER,
    rtt_p50_us INTEGER,
    rtt_p99_us INTEGER,
    rtt_samples INTEGER NOT NULL,
    cwnd_segments INTEGER NOT NULL,
    delivery_bps INTEGER,
    lost_segments INTEGER NOT NULL,
    timeouts INTEGER,
    send_bps INTEGER NOT NULL,
    receive_bps INTEGER NOT NULL,
    wire_bytes_sent_estimate INTEGER NOT NULL,
    wire_bytes_received_estimate INTEGER NOT NULL,
    scheduler_considered INTEGER,
    scheduler_picked INTEGER,
    cpu_syscall_ns INTEGER,
    cpu_rx_softirq_ns INTEGER,
    cpu_tx_ns INTEGER,
    cpu_timer_ns INTEGER,
    cpu_worker_ns INTEGER,
    active_uj INTEGER,
    lo_uj INTEGER,
    hi_uj INTEGER,
    full_uj INTEGER,
    energy_cpu_ns INTEGER,
    energy_source INTEGER,
    energy_convention INTEGER,
    energy_idle INTEGER,
    closed_after_ns INTEGER,
    close_reason INTEGER
) STRICT;

-- What the flags of connections and subflows do not already say.
CREATE TABLE event (
    connection INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    after_ns INTEGER NOT NULL,
    source INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    subflow TEXT,
    number INTEGER,
    word INTEGER,
    address TEXT,
    PRIMARY KEY (connection, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
    subflow INTEGER NOT NULL,
    after_ns INTEGER NOT NULL,
    bytes_sent INTEGER NOT NULL,
    bytes_received INTEGER NOT NULL,
    bytes_retransmitted INTEGER NOT NULL,
    srtt_us INTEGER,
    cwnd_segments INTEGER NOT NULL,
    active_uj INTEGER,
    PRIMARY KEY (subflow, after_ns)
) STRICT, WITHOUT ROWID;

CREATE VIEW v_run AS
SELECT id AS run, host, boot_id, kernel, mpwatch, from_ns, to_ns,
    datetime(from_ns / 1000000000, 'unixepoch') AS from_utc,
    datetime(to_ns / 1000000000, 'unixepoch') AS to_utc,
    json_extract(energy, '$.source') AS energy_source,
    json_extract(energy, '$.idle') AS energy_idle,
    json_extract(losses, '$.records_lost') AS records_lost,
    json_extract(losses, '$.vanished') AS vanished,
    snapshots_dropped, flows_lost, samples_lost, missing, losses, counters, cpus, energy
FROM run;

CREATE VIEW v_subflow AS
SELECT s.id / 4096 AS connection, s.id % 4096 AS place,
    printf('%x.%d', s.cookie, s.generation) AS id,
    (SELECT text FROM name WHERE id = s.local_ip) AS local_ip, s.local_port,
    (SELECT text FROM name WHERE id = s.remote_ip) AS remote_ip, s.remote_port,
    s.local_id, s.remote_id,
    (SELECT text FROM name WHERE id = s.interface) AS interface,
    s.flags & 1 AS initial, s.flags >> 1 & 1 AS backup, s.flags >> 2 & 1 AS stale,
    (SELECT text FROM name WHERE id = s.state) AS state,
    c.began_ns + s.created_after_ns AS created_at_ns,
    c.began_ns + s.established_after_ns AS established_at_ns,
    s.handshake_us, s.joined_after_us, s.joined_after_bytes,
    s.bytes_sent, s.bytes_acked, s.bytes_received, s.bytes_retransmitted, s.segments_retransmitted,
    s.retransmits_fast, s.retransmits_timeout, s.retransmits_probe,
    s.rtt_us, s.srtt_us, s.rttvar_us, s.rtt_min_us, s.rtt_p50_us, s.rtt_p99_us, s.rtt_samples,
    s.cwnd_segments, s.delivery_bps, s.lost_segments, s.timeouts, s.send_bps, s.receive_bps,
    s.wire_bytes_sent_estimate, s.wire_bytes_received_estimate, s.scheduler_considered, s.scheduler_picked,
    s.cpu_syscall_ns, s.cpu_rx_softirq_ns, s.cpu_tx_ns, s.cpu_timer_ns, s.cpu_worker_ns,
    ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns AS cpu_ns,
    s.active_uj, s.lo_uj, s.hi_uj, s.full_uj,
    (SELECT text FROM name WHERE id = s.energy_source) AS energy_source,
    (SELECT text FROM name WHERE id = s.energy_convention) AS energy_convention,
    (SELECT text FROM name WHERE id = s.energy_idle) AS energy_idle,
    c.began_ns + s.closed_after_ns AS closed_at_ns,
    (SELECT text FROM name WHERE id = s.close_reason) AS close_reason
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096;

-- Sums over its subflows by their numbers, one connection at a time: a join with all of them grouped would look at all for each.
CREATE VIEW v_connection AS
SELECT c.id AS connection, c.run, c.runs, r.host, r.boot_id,
    printf('%x-%08x-%x', n.cookie, c.token & 0xffffffff, c.birth) AS id,
    CASE WHEN c.token != 0 THEN printf('%08x', c.token & 0xffffffff) END AS token,
    CASE WHEN c.remote_token IS NOT NULL THEN printf('%08x', c.remote_token & 0xffffffff) END AS remote_token,
    n.name AS netns, n.inode AS netns_inode,
    (SELECT text FROM name WHERE id = c.role) AS role,
    (SELECT text FROM name WHERE id = ifnull(c.local_ip, f.local_ip)) AS local_ip, ifnull(c.local_port, f.local_port) AS local_port,
    (SELECT text FROM name WHERE id = ifnull(c.remote_ip, f.remote_ip)) AS remote_ip, ifnull(c.remote_port, f.remote_port) AS remote_port,
    c.pid, (SELECT text FROM name WHERE id = c.comm) AS comm,
    (SELECT text FROM name WHERE id = c.cgroup) AS cgroup,
    c.began_ns, CASE WHEN c.flags & 1 THEN c.began_ns END AS opened_at_ns,
    c.age_ns, CASE WHEN c.flags & 2 THEN c.began_ns + c.age_ns END AS closed_at_ns,
    c.began_ns + c.age_ns AS known_until_ns,
    (SELECT text FROM name WHERE id = c.state) AS state,
    (SELECT text FROM name WHERE id = c.protocol) AS protocol,
    (SELECT text FROM name WHERE id = c.fallback) AS fallback,
    c.bytes_sent, c.bytes_acked, c.bytes_received, 
    (SELECT sum(s.bytes_retransmitted) FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS bytes_retransmitted,
    c.bytes_reinjected,
    c.mptcp_bytes_retransmitted, c.send_bps, c.receive_bps,
    (SELECT text FROM name WHERE id = c.flow_class) AS flow_class,
    c.excess_ratio, c.jain_index, c.second_path_after_us, c.second_path_after_bytes, c.second_path_effective_after_bytes,
    c.extra_subflows,
    (SELECT count(*) FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS subflows,
    (SELECT CASE WHEN count(s.cpu_rx_softirq_ns) = count(*) THEN
        sum(ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS cpu_ns,
    (SELECT CASE WHEN count(s.active_uj) = count(s.energy_source) THEN sum(s.active_uj) END FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS active_uj,
    (SELECT CASE WHEN count(s.lo_uj) = count(s.energy_source) THEN sum(s.lo_uj) END FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS lo_uj,
    (SELECT CASE WHEN count(s.hi_uj) = count(s.energy_source) THEN sum(s.hi_uj) END FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS hi_uj,
    (SELECT CASE WHEN count(s.full_uj) = count(s.energy_source) THEN sum(s.full_uj) END FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS full_uj,
    (SELECT text FROM name WHERE id = (SELECT CASE WHEN min(s.energy_source) = max(s.energy_source) THEN min(s.energy_source) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095)) AS energy_source,
    CASE WHEN ifnull(c.bytes_sent, 0) + ifnull(c.bytes_received, 0) > 0 THEN
        (SELECT CASE WHEN count(s.active_uj) = count(s.energy_source) THEN sum(s.active_uj) END FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095)
        * 1000.0 / (ifnull(c.bytes_sent, 0) + ifnull(c.bytes_received, 0)) END AS j_per_gb
FROM connection AS c
JOIN run AS r ON r.id = c.run
JOIN netns AS n ON n.id = c.netns
LEFT JOIN subflow AS f ON f.id = c.id * 4096 + 1;

-- bottlenecks (store/verdicts.rs): [groups of places, pairs of [place, place, verdict, probability, since, evidence]], parts of one in ten-thousandths.
CREATE VIEW v_bottleneck AS
SELECT c.id AS connection,
    (SELECT printf('%x.%d', s.cookie, s.generation) FROM subflow AS s WHERE s.id = c.id * 4096 + json_extract(p.value, '$[0]')) AS a,
    (SELECT printf('%x.%d', s.cookie, s.generation) FROM subflow AS s WHERE s.id = c.id * 4096 + json_extract(p.value, '$[1]')) AS b,
    CASE json_extract(p.value, '$[2]') WHEN 1 THEN 'shared' WHEN 2 THEN 'disjoint' WHEN 3 THEN 'no_bottleneck' ELSE 'unknown' END AS verdict,
    json_extract(p.value, '$[3]') / 1e4 AS probability,
    json_extract(p.value, '$[4]') AS since_us,
    json_extract(p.value, '$[5][0]') / 1e4 AS queue_concordance, json_extract(p.value, '$[5][1]') / 1e4 AS burst_concordance,
    json_extract(p.value, '$[5][2]') / 1e4 AS queue_signal, json_extract(p.value, '$[5][3]') / 1e4 AS rate_correlation,
    json_extract(p.value, '$[5][4]') / 1e4 AS sum_variation, json_extract(p.value, '$[5][5]') / 1e4 AS rate_variation,
    json_extract(p.value, '$[5][6]') / 1e4 AS least_variation, json_extract(p.value, '$[5][7]') / 1e4 AS loss_coincidence,
    json_extract(p.value, '$[5][8]') / 1e4 AS busy_a, json_extract(p.value, '$[5][9]') / 1e4 AS busy_b,
    json_extract(p.value, '$[5][10]') / 1e4 AS coverage, json_extract(p.value, '$[5][11]') AS window_us
FROM connection AS c, json_each(c.bottlenecks, '$[1]') AS p;

CREATE VIEW v_event AS
SELECT id AS connection, began_ns AS at_ns, 'tracepoint' AS source, 'opened' AS event,
    NULL AS subflow, NULL AS number, NULL AS word, NULL AS address
FROM connection WHERE flags & 4
UNION ALL
SELECT id, began_ns + age_ns, 'tracepoint', 'closed', NULL, NULL, NULL, NULL FROM connection WHERE flags & 8
UNION ALL
SELECT c.id, c.began_ns + s.created_after_ns, 'tracepoint', 'subflow_opened', printf('%x.%d', s.cookie, s.generation), NULL, NULL, NULL
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 WHERE s.flags & 8
UNION ALL
SELECT c.id, c.began_ns + s.established_after_ns, 'tracepoint', 'subflow_established', printf('%x.%d', s.cookie, s.generation), NULL, NULL, NULL
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 WHERE s.established_after_ns IS NOT NULL
UNION ALL
SELECT c.id, c.began_ns + s.closed_after_ns, 'tracepoint', 'subflow_closed', printf('%x.%d', s.cookie, s.generation), NULL,
    (SELECT text FROM name WHERE id = s.close_reason), NULL
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 WHERE s.flags & 16
UNION ALL
SELECT e.connection, c.began_ns + e.after_ns, (SELECT text FROM name WHERE id = e.source), (SELECT text FROM name WHERE id = e.kind),
    e.subflow, e.number, (SELECT text FROM name WHERE id = e.word), e.address
FROM event AS e JOIN connection AS c ON c.id = e.connection;

CREATE VIEW v_sample AS
SELECT p.subflow / 4096 AS connection, p.subflow % 4096 AS place, c.began_ns + p.after_ns AS at_ns,
    p.bytes_sent, p.bytes_received, p.bytes_retransmitted, p.srtt_us, p.cwnd_segments, p.active_uj
FROM sample AS p JOIN connection AS c ON c.id = p.subflow / 4096;

CREATE VIEW v_energy AS
SELECT r.id AS run, r.host, json_extract(z.value, '$.zone') AS zone, json_extract(r.energy, '$.source') AS source,
    json_extract(z.value, '$.zone_uj') AS zone_uj, json_extract(z.value, '$.flows_uj') AS flows_uj,
    json_extract(z.value, '$.app_uj') AS app_uj, json_extract(z.value, '$.other_uj') AS other_uj,
    json_extract(z.value, '$.net_shared_uj') AS net_shared_uj, json_extract(z.value, '$.irq_uj') AS irq_uj,
    json_extract(z.value, '$.self_uj') AS self_uj, json_extract(z.value, '$.unexplained_uj') AS unexplained_uj,
    json_extract(z.value, '$.idle_uj') AS idle_uj
FROM run AS r, json_each(r.energy, '$.zones') AS z;

CREATE VIEW v_peer_daily AS
SELECT date(began_ns / 1000000000, 'unixepoch') AS day, host, remote_ip, protocol, count(*) AS connections,
    sum(bytes_sent) AS bytes_sent, sum(bytes_received) AS bytes_received, sum(bytes_retransmitted) AS bytes_retransmitted,
    sum(active_uj) AS active_uj, avg(age_ns) / 1e9 AS mean_age_s
FROM v_connection GROUP BY day, host, remote_ip, protocol;

-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Version 2: what rows have in common is written once (connection_kind, subflow_kind), what follows from other columns is not written, and
-- numbers that are near others are differences to them: `x_less` and `x_more` say of what below. Smaller by a quarter.

DROP VIEW IF EXISTS v_peer_daily;
DROP VIEW IF EXISTS v_energy;
DROP VIEW IF EXISTS v_sample;
DROP VIEW IF EXISTS v_event;
DROP VIEW IF EXISTS v_bottleneck;
DROP VIEW IF EXISTS v_connection;
DROP VIEW IF EXISTS v_subflow;
DROP VIEW IF EXISTS v_run;
DROP INDEX connection_open;
ALTER TABLE connection RENAME TO connection_1;
ALTER TABLE subflow RENAME TO subflow_1;

-- What many connections have in common. grouped: groups of subflows behind one bottleneck each, by their places, as JSON, or an object
-- where more is to be said than that; NULL: nobody looked.
CREATE TABLE connection_kind (
    id INTEGER PRIMARY KEY,
    runs INTEGER NOT NULL,
    netns INTEGER NOT NULL,
    role INTEGER,
    protocol INTEGER NOT NULL,
    state INTEGER NOT NULL,
    fallback INTEGER,
    flow_class INTEGER NOT NULL,
    comm INTEGER,
    cgroup INTEGER,
    extra_subflows INTEGER,
    grouped INTEGER
) STRICT;

-- A connection has one row, however many runs see it: boot, netns, token and birth tell it from all others. run: the last one that saw it.
-- flags: 1 seen open, 2 closed, 4 the timeline has its opening, 8 and its end; both by tracepoint and at exactly these times.
-- acked_less: than bytes_sent. jain_millionths: of one. second_path_more_us, _more_bytes: than those of the second subflow's joining.
CREATE TABLE connection (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    token INTEGER NOT NULL,
    birth INTEGER NOT NULL,
    remote_token INTEGER,
    pid INTEGER,
    began_ns INTEGER NOT NULL,
    age_ns INTEGER NOT NULL,
    bytes_sent INTEGER,
    acked_less INTEGER,
    bytes_received INTEGER,
    bytes_reinjected INTEGER,
    mptcp_bytes_retransmitted INTEGER,
    send_bps INTEGER NOT NULL,
    receive_bps INTEGER NOT NULL,
    jain_millionths INTEGER,
    second_path_more_us INTEGER,
    second_path_more_bytes INTEGER,
    second_path_effective_after_bytes INTEGER
) STRICT;

-- What another run may see again.
CREATE INDEX connection_open ON connection (run) WHERE flags & 2 = 0;

-- Addresses of connections, where they are not those of the first subflow.
CREATE TABLE ends (
    connection INTEGER PRIMARY KEY,
    local_ip INTEGER,
    local_port INTEGER,
    remote_ip INTEGER,
    remote_port INTEGER
) STRICT;

-- What many subflows have in common.
-- flags: 1 initial, 2 backup, 4 stale, 8 the timeline has its SYN, 16 and its end; both by tracepoint and at exactly these times.
CREATE TABLE subflow_kind (
    id INTEGER PRIMARY KEY,
    flags INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    local_ip INTEGER NOT NULL,
    local_id INTEGER NOT NULL,
    remote_id INTEGER NOT NULL,
    interface INTEGER,
    state INTEGER NOT NULL,
    close_reason INTEGER,
    energy_source INTEGER,
    energy_convention INTEGER,
    energy_idle INTEGER
) STRICT;

-- id: that of the connection times 4096, plus the place in it (1 is the first). cookie_more: than the connection's birth.
-- ports: the local one times 65536, plus the remote one, with a sign. established_ns: after its creation, or the beginning of the connection
-- where that is not known. handshake_more_us, joined_more_us: than until then, from its creation or the beginning. closed_less_ns: than the
-- age of the connection. acked_less: than sent without retransmitted. rtt_more_us, rttvar_us ... p99: than the smoothed one, but rtt_min_less_us.
-- fast_less, lost_more: than segments_retransmitted. wire_*_more: than payload. picked_less: than considered. lo_less, hi_more, full_more: than
-- active. energy_cpu_more_ns: than the sum of the kinds of work.
CREATE TABLE subflow (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    cookie_more INTEGER NOT NULL,
    ports INTEGER NOT NULL,
    remote_ip INTEGER NOT NULL,
    created_after_ns INTEGER,
    established_ns INTEGER,
    handshake_more_us INTEGER,
    joined_more_us INTEGER,
    joined_after_bytes INTEGER,
    closed_less_ns INTEGER,
    bytes_sent INTEGER NOT NULL,
    acked_less INTEGER NOT NULL,
    bytes_received INTEGER NOT NULL,
    bytes_retransmitted INTEGER NOT NULL,
    segments_retransmitted INTEGER NOT NULL,
    fast_less INTEGER,
    retransmits_timeout INTEGER,
    retransmits_probe INTEGER,
    srtt_us INTEGER,
    rtt_more_us INTEGER,
    rttvar_us INTEGER,
    rtt_min_less_us INTEGER,
    rtt_p50_more_us INTEGER,
    rtt_p99_more_us INTEGER,
    rtt_samples INTEGER NOT NULL,
    cwnd_segments INTEGER NOT NULL,
    delivery_bps INTEGER,
    lost_more INTEGER NOT NULL,
    timeouts INTEGER,
    send_bps INTEGER NOT NULL,
    receive_bps INTEGER NOT NULL,
    wire_sent_more INTEGER NOT NULL,
    wire_received_more INTEGER NOT NULL,
    scheduler_considered INTEGER,
    picked_less INTEGER,
    cpu_syscall_ns INTEGER,
    cpu_rx_softirq_ns INTEGER,
    cpu_tx_ns INTEGER,
    cpu_timer_ns INTEGER,
    cpu_worker_ns INTEGER,
    active_uj INTEGER,
    lo_less_uj INTEGER,
    hi_more_uj INTEGER,
    full_more_uj INTEGER,
    energy_cpu_more_ns INTEGER
) STRICT;

-- A verdict on two subflows. id: that of the connection times 4096 times 4096, plus the place of one times 4096, plus the place of the other.
-- verdict: 0 unknown, 1 shared, 2 disjoint, 3 no bottleneck. Shares are in ten-thousandths; coverage is NULL where there is no evidence.
CREATE TABLE verdict (
    id INTEGER PRIMARY KEY,
    verdict INTEGER NOT NULL,
    probability INTEGER,
    since_us INTEGER,
    queue_concordance INTEGER,
    burst_concordance INTEGER,
    queue_signal INTEGER,
    rate_correlation INTEGER,
    sum_variation INTEGER,
    rate_variation INTEGER,
    least_variation INTEGER,
    loss_coincidence INTEGER,
    busy_a INTEGER,
    busy_b INTEGER,
    coverage INTEGER,
    window_us INTEGER
) STRICT;

-- From version 1.

INSERT OR IGNORE INTO name (text)
SELECT json_extract(bottlenecks, '$[0]') FROM connection_1 WHERE bottlenecks LIKE '[%';

INSERT INTO connection_kind (runs, netns, role, protocol, state, fallback, flow_class, comm, cgroup, extra_subflows, grouped)
SELECT DISTINCT runs, netns, role, protocol, state, fallback, flow_class, comm, cgroup, extra_subflows,
    CASE WHEN bottlenecks LIKE '[%' THEN (SELECT id FROM name WHERE text = json_extract(bottlenecks, '$[0]')) END
FROM connection_1;

CREATE INDEX kinds ON connection_kind (netns, cgroup, comm, runs);

INSERT INTO connection
SELECT c.id, c.run, k.id, c.flags, c.token, c.birth, c.remote_token, c.pid, c.began_ns, c.age_ns,
    c.bytes_sent, ifnull(c.bytes_sent, 0) - c.bytes_acked, c.bytes_received, c.bytes_reinjected, c.mptcp_bytes_retransmitted,
    c.send_bps, c.receive_bps, CAST(round(c.jain_index * 1e6) AS INTEGER),
    c.second_path_after_us - ifnull(g.joined_after_us, 0), c.second_path_after_bytes - ifnull(g.joined_after_bytes, 0),
    c.second_path_effective_after_bytes
FROM connection_1 AS c
LEFT JOIN subflow_1 AS g ON g.id = c.id * 4096 + 2
CROSS JOIN connection_kind AS k ON k.netns = c.netns AND k.cgroup IS c.cgroup AND k.comm IS c.comm AND k.runs = c.runs AND k.role IS c.role
    AND k.protocol = c.protocol AND k.state = c.state AND k.fallback IS c.fallback AND k.flow_class = c.flow_class
    AND k.extra_subflows IS c.extra_subflows
    AND k.grouped IS CASE WHEN c.bottlenecks LIKE '[%' THEN (SELECT id FROM name WHERE text = json_extract(c.bottlenecks, '$[0]')) END;

DROP INDEX kinds;

INSERT INTO ends SELECT id, local_ip, local_port, remote_ip, remote_port FROM connection_1 WHERE local_ip IS NOT NULL OR remote_ip IS NOT NULL;

INSERT INTO subflow_kind (flags, generation, local_ip, local_id, remote_id, interface, state, close_reason,
    energy_source, energy_convention, energy_idle)
SELECT DISTINCT flags, generation, local_ip, local_id, remote_id, interface, state, close_reason, energy_source, energy_convention, energy_idle
FROM subflow_1;

CREATE INDEX kinds ON subflow_kind (local_ip, interface, flags, generation);

INSERT INTO subflow
SELECT s.id, k.id, s.cookie - c.birth, (s.local_port << 16 | s.remote_port) - (s.local_port >> 15 << 32), s.remote_ip,
    s.created_after_ns, s.established_after_ns - ifnull(s.created_after_ns, 0),
    s.handshake_us - ifnull((s.established_after_ns - s.created_after_ns) / 1000, 0),
    s.joined_after_us - ifnull(s.established_after_ns / 1000, 0), s.joined_after_bytes, c.age_ns - s.closed_after_ns,
    s.bytes_sent, s.bytes_sent - s.bytes_retransmitted - s.bytes_acked, s.bytes_received, s.bytes_retransmitted,
    s.segments_retransmitted, s.segments_retransmitted - s.retransmits_fast, s.retransmits_timeout, s.retransmits_probe,
    s.srtt_us, s.rtt_us - ifnull(s.srtt_us, 0), s.rttvar_us, ifnull(s.srtt_us, 0) - s.rtt_min_us,
    s.rtt_p50_us - ifnull(s.srtt_us, 0), s.rtt_p99_us - ifnull(s.srtt_us, 0), s.rtt_samples,
    s.cwnd_segments, s.delivery_bps, s.lost_segments - s.segments_retransmitted, s.timeouts, s.send_bps, s.receive_bps,
    s.wire_bytes_sent_estimate - s.bytes_sent, s.wire_bytes_received_estimate - s.bytes_received,
    s.scheduler_considered, s.scheduler_considered - s.scheduler_picked,
    s.cpu_syscall_ns, s.cpu_rx_softirq_ns, s.cpu_tx_ns, s.cpu_timer_ns, s.cpu_worker_ns,
    s.active_uj, ifnull(s.active_uj, 0) - s.lo_uj, s.hi_uj - ifnull(s.active_uj, 0), s.full_uj - ifnull(s.active_uj, 0),
    s.energy_cpu_ns - ifnull(ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns, 0)
FROM subflow_1 AS s
JOIN connection_1 AS c ON c.id = s.id / 4096
CROSS JOIN subflow_kind AS k ON k.local_ip = s.local_ip AND k.interface IS s.interface AND k.flags = s.flags AND k.generation = s.generation
    AND k.local_id = s.local_id AND k.remote_id = s.remote_id AND k.state = s.state AND k.close_reason IS s.close_reason
    AND k.energy_source IS s.energy_source AND k.energy_convention IS s.energy_convention AND k.energy_idle IS s.energy_idle;

DROP INDEX kinds;

INSERT INTO verdict
SELECT (c.id << 24) | (json_extract(p.value, '$[0]') << 12) | json_extract(p.value, '$[1]'),
    json_extract(p.value, '$[2]'), json_extract(p.value, '$[3]'), json_extract(p.value, '$[4]'),
    json_extract(p.value, '$[5][0]'), json_extract(p.value, '$[5][1]'), json_extract(p.value, '$[5][2]'), json_extract(p.value, '$[5][3]'),
    json_extract(p.value, '$[5][4]'), json_extract(p.value, '$[5][5]'), json_extract(p.value, '$[5][6]'), json_extract(p.value, '$[5][7]'),
    json_extract(p.value, '$[5][8]'), json_extract(p.value, '$[5][9]'), json_extract(p.value, '$[5][10]'), json_extract(p.value, '$[5][11]')
FROM connection_1 AS c, json_each(c.bottlenecks, '$[1]') AS p
WHERE c.bottlenecks LIKE '[%';

DROP TABLE subflow_1;
DROP TABLE connection_1;

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
    printf('%x.%d', c.birth + s.cookie_more, k.generation) AS id,
    (SELECT text FROM name WHERE id = k.local_ip) AS local_ip, s.ports >> 16 & 65535 AS local_port,
    (SELECT text FROM name WHERE id = s.remote_ip) AS remote_ip, s.ports & 65535 AS remote_port,
    k.local_id, k.remote_id,
    (SELECT text FROM name WHERE id = k.interface) AS interface,
    k.flags & 1 AS initial, k.flags >> 1 & 1 AS backup, k.flags >> 2 & 1 AS stale,
    (SELECT text FROM name WHERE id = k.state) AS state,
    c.began_ns + s.created_after_ns AS created_at_ns,
    c.began_ns + ifnull(s.created_after_ns, 0) + s.established_ns AS established_at_ns,
    s.handshake_more_us + ifnull(CASE WHEN s.created_after_ns IS NOT NULL THEN s.established_ns / 1000 END, 0) AS handshake_us,
    s.joined_more_us + ifnull((ifnull(s.created_after_ns, 0) + s.established_ns) / 1000, 0) AS joined_after_us, s.joined_after_bytes,
    s.bytes_sent, s.bytes_sent - s.bytes_retransmitted - s.acked_less AS bytes_acked, s.bytes_received, s.bytes_retransmitted,
    s.segments_retransmitted, s.segments_retransmitted - s.fast_less AS retransmits_fast, s.retransmits_timeout, s.retransmits_probe,
    s.rtt_more_us + ifnull(s.srtt_us, 0) AS rtt_us, s.srtt_us, s.rttvar_us, ifnull(s.srtt_us, 0) - s.rtt_min_less_us AS rtt_min_us,
    s.rtt_p50_more_us + ifnull(s.srtt_us, 0) AS rtt_p50_us, s.rtt_p99_more_us + ifnull(s.srtt_us, 0) AS rtt_p99_us, s.rtt_samples,
    s.cwnd_segments, s.delivery_bps, s.lost_more + s.segments_retransmitted AS lost_segments, s.timeouts, s.send_bps, s.receive_bps,
    s.bytes_sent + s.wire_sent_more AS wire_bytes_sent_estimate, s.bytes_received + s.wire_received_more AS wire_bytes_received_estimate,
    s.scheduler_considered, s.scheduler_considered - s.picked_less AS scheduler_picked,
    s.cpu_syscall_ns, s.cpu_rx_softirq_ns, s.cpu_tx_ns, s.cpu_timer_ns, s.cpu_worker_ns,
    ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns AS cpu_ns,
    s.active_uj, ifnull(s.active_uj, 0) - s.lo_less_uj AS lo_uj, ifnull(s.active_uj, 0) + s.hi_more_uj AS hi_uj,
    ifnull(s.active_uj, 0) + s.full_more_uj AS full_uj,
    (SELECT text FROM name WHERE id = k.energy_source) AS energy_source,
    (SELECT text FROM name WHERE id = k.energy_convention) AS energy_convention,
    (SELECT text FROM name WHERE id = k.energy_idle) AS energy_idle,
    c.began_ns + c.age_ns - s.closed_less_ns AS closed_at_ns,
    (SELECT text FROM name WHERE id = k.close_reason) AS close_reason
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 JOIN subflow_kind AS k ON k.id = s.kind;

-- Sums over its subflows by their numbers, one connection at a time: a join with all of them grouped would look at all for each.
CREATE VIEW v_connection AS
SELECT c.id AS connection, c.run, k.runs, r.host, r.boot_id,
    printf('%x-%08x-%x', n.cookie, c.token & 0xffffffff, c.birth) AS id,
    CASE WHEN c.token != 0 THEN printf('%08x', c.token & 0xffffffff) END AS token,
    CASE WHEN c.remote_token IS NOT NULL THEN printf('%08x', c.remote_token & 0xffffffff) END AS remote_token,
    n.name AS netns, n.inode AS netns_inode,
    (SELECT text FROM name WHERE id = k.role) AS role,
    (SELECT text FROM name WHERE id = ifnull(e.local_ip, (SELECT local_ip FROM subflow_kind WHERE id = f.kind))) AS local_ip,
    ifnull(e.local_port, f.ports >> 16 & 65535) AS local_port,
    (SELECT text FROM name WHERE id = ifnull(e.remote_ip, f.remote_ip)) AS remote_ip,
    ifnull(e.remote_port, f.ports & 65535) AS remote_port,
    c.pid, (SELECT text FROM name WHERE id = k.comm) AS comm,
    (SELECT text FROM name WHERE id = k.cgroup) AS cgroup,
    c.began_ns, CASE WHEN c.flags & 1 THEN c.began_ns END AS opened_at_ns,
    c.age_ns, CASE WHEN c.flags & 2 THEN c.began_ns + c.age_ns END AS closed_at_ns,
    c.began_ns + c.age_ns AS known_until_ns,
    (SELECT text FROM name WHERE id = k.state) AS state,
    (SELECT text FROM name WHERE id = k.protocol) AS protocol,
    (SELECT text FROM name WHERE id = k.fallback) AS fallback,
    c.bytes_sent, ifnull(c.bytes_sent, 0) - c.acked_less AS bytes_acked, c.bytes_received,
    (SELECT sum(s.bytes_retransmitted) FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS bytes_retransmitted,
    c.bytes_reinjected,
    c.mptcp_bytes_retransmitted, c.send_bps, c.receive_bps,
    (SELECT text FROM name WHERE id = k.flow_class) AS flow_class,
    (SELECT CASE WHEN sum(s.bytes_sent + s.wire_sent_more + s.bytes_received + s.wire_received_more) > 0 THEN
        max(0.0, 1.0 - CAST(ifnull(c.bytes_sent, sum(max(s.bytes_sent - s.bytes_retransmitted, 0))) + ifnull(c.bytes_received, 0) AS REAL)
            / sum(s.bytes_sent + s.wire_sent_more + s.bytes_received + s.wire_received_more)) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS excess_ratio,
    c.jain_millionths / 1e6 AS jain_index,
    c.second_path_more_us + ifnull(g.joined_more_us + ifnull((ifnull(g.created_after_ns, 0) + g.established_ns) / 1000, 0), 0) AS second_path_after_us,
    c.second_path_more_bytes + ifnull(g.joined_after_bytes, 0) AS second_path_after_bytes, c.second_path_effective_after_bytes,
    k.extra_subflows,
    (SELECT count(*) FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS subflows,
    (SELECT CASE WHEN count(s.cpu_rx_softirq_ns) = count(*) THEN
        sum(ifnull(s.cpu_syscall_ns, 0) + s.cpu_rx_softirq_ns + s.cpu_tx_ns + s.cpu_timer_ns + s.cpu_worker_ns) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS cpu_ns,
    (SELECT CASE WHEN count(s.active_uj) = count(s.energy_cpu_more_ns) THEN sum(s.active_uj) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS active_uj,
    (SELECT CASE WHEN count(s.lo_less_uj) = count(s.energy_cpu_more_ns) THEN sum(ifnull(s.active_uj, 0) - s.lo_less_uj) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS lo_uj,
    (SELECT CASE WHEN count(s.hi_more_uj) = count(s.energy_cpu_more_ns) THEN sum(ifnull(s.active_uj, 0) + s.hi_more_uj) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS hi_uj,
    (SELECT CASE WHEN count(s.full_more_uj) = count(s.energy_cpu_more_ns) THEN sum(ifnull(s.active_uj, 0) + s.full_more_uj) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095) AS full_uj,
    (SELECT text FROM name WHERE id = (SELECT CASE WHEN min(o.energy_source) = max(o.energy_source) THEN min(o.energy_source) END
        FROM subflow AS s JOIN subflow_kind AS o ON o.id = s.kind WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095)) AS energy_source,
    CASE WHEN ifnull(c.bytes_sent, 0) + ifnull(c.bytes_received, 0) > 0 THEN
        (SELECT CASE WHEN count(s.active_uj) = count(s.energy_cpu_more_ns) THEN sum(s.active_uj) END
        FROM subflow AS s WHERE s.id BETWEEN c.id * 4096 AND c.id * 4096 + 4095)
        * 1000.0 / (ifnull(c.bytes_sent, 0) + ifnull(c.bytes_received, 0)) END AS j_per_gb
FROM connection AS c
JOIN connection_kind AS k ON k.id = c.kind
JOIN run AS r ON r.id = c.run
JOIN netns AS n ON n.id = k.netns
LEFT JOIN subflow AS f ON f.id = c.id * 4096 + 1
LEFT JOIN subflow AS g ON g.id = c.id * 4096 + 2
LEFT JOIN ends AS e ON e.connection = c.id;

CREATE VIEW v_bottleneck AS
SELECT v.id >> 24 AS connection,
    (SELECT printf('%x.%d', c.birth + s.cookie_more, k.generation) FROM subflow AS s JOIN subflow_kind AS k ON k.id = s.kind
        WHERE s.id = (v.id >> 24) * 4096 + (v.id >> 12 & 4095)) AS a,
    (SELECT printf('%x.%d', c.birth + s.cookie_more, k.generation) FROM subflow AS s JOIN subflow_kind AS k ON k.id = s.kind
        WHERE s.id = (v.id >> 24) * 4096 + (v.id & 4095)) AS b,
    CASE v.verdict WHEN 1 THEN 'shared' WHEN 2 THEN 'disjoint' WHEN 3 THEN 'no_bottleneck' ELSE 'unknown' END AS verdict,
    v.probability / 1e4 AS probability, v.since_us,
    v.queue_concordance / 1e4 AS queue_concordance, v.burst_concordance / 1e4 AS burst_concordance,
    v.queue_signal / 1e4 AS queue_signal, v.rate_correlation / 1e4 AS rate_correlation,
    v.sum_variation / 1e4 AS sum_variation, v.rate_variation / 1e4 AS rate_variation,
    v.least_variation / 1e4 AS least_variation, v.loss_coincidence / 1e4 AS loss_coincidence,
    v.busy_a / 1e4 AS busy_a, v.busy_b / 1e4 AS busy_b, v.coverage / 1e4 AS coverage, v.window_us
FROM verdict AS v JOIN connection AS c ON c.id = v.id >> 24;

CREATE VIEW v_event AS
SELECT id AS connection, began_ns AS at_ns, 'tracepoint' AS source, 'opened' AS event,
    NULL AS subflow, NULL AS number, NULL AS word, NULL AS address
FROM connection WHERE flags & 4
UNION ALL
SELECT id, began_ns + age_ns, 'tracepoint', 'closed', NULL, NULL, NULL, NULL FROM connection WHERE flags & 8
UNION ALL
SELECT c.id, c.began_ns + s.created_after_ns, 'tracepoint', 'subflow_opened', printf('%x.%d', c.birth + s.cookie_more, k.generation),
    NULL, NULL, NULL
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 JOIN subflow_kind AS k ON k.id = s.kind WHERE k.flags & 8
UNION ALL
SELECT c.id, c.began_ns + ifnull(s.created_after_ns, 0) + s.established_ns, 'tracepoint', 'subflow_established',
    printf('%x.%d', c.birth + s.cookie_more, k.generation), NULL, NULL, NULL
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 JOIN subflow_kind AS k ON k.id = s.kind WHERE s.established_ns IS NOT NULL
UNION ALL
SELECT c.id, c.began_ns + c.age_ns - s.closed_less_ns, 'tracepoint', 'subflow_closed', printf('%x.%d', c.birth + s.cookie_more, k.generation),
    NULL, (SELECT text FROM name WHERE id = k.close_reason), NULL
FROM subflow AS s JOIN connection AS c ON c.id = s.id / 4096 JOIN subflow_kind AS k ON k.id = s.kind WHERE k.flags & 16
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

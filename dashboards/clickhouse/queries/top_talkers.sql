-- Who sends most? Payload by client host, program and server host, in both directions.
SELECT client_host, client_comm, ifNull(server_host, client_remote_ip) AS server,
       round(sum(ifNull(client_sample_weight, 1))) AS connections,
       round(sum(client_bytes_sent * ifNull(client_sample_weight, 1)) / 1e9, 3) AS sent_gb,
       round(sum(client_bytes_received * ifNull(client_sample_weight, 1)) / 1e9, 3) AS received_gb
FROM mpwatch.pairs
WHERE client_id IS NOT NULL AND client_began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
GROUP BY client_host, client_comm, server
ORDER BY sum((client_bytes_sent + client_bytes_received) * ifNull(client_sample_weight, 1)) DESC, client_host, client_comm
LIMIT 100

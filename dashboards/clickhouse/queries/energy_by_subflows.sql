-- Joules per gigabyte, summed over both ends, by number of subflows. Payload is counted at the client.
SELECT client_subflows AS subflows,
       round(sum(ifNull(client_sample_weight, 1))) AS connections,
       round(sum(client_observed_bytes * ifNull(client_sample_weight, 1)) / 1e9, 3) AS gigabytes,
       round(sum((client_active_uj + server_active_uj) * ifNull(client_sample_weight, 1)) * 1e3 / sum(client_observed_bytes * ifNull(client_sample_weight, 1)), 3) AS j_per_gb
FROM mpwatch.pairs
WHERE ends = 3 AND client_began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
  AND client_observed_bytes > 0 AND client_active_uj IS NOT NULL AND server_active_uj IS NOT NULL
GROUP BY subflows
ORDER BY subflows

-- How evenly do subflows share the payload? Jain's index of senders with several subflows: 1 if all carry the same amount, 1/N if a single
-- subflow carries everything. The sender is the end that sent more.
SELECT client_host, server_host, client_subflows AS subflows,
       round(sum(ifNull(client_sample_weight, 1))) AS connections,
       round(quantile(0.1)(sender_jain_index), 3) AS jain_p10,
       round(quantile(0.5)(sender_jain_index), 3) AS jain_p50,
       round(sumIf(ifNull(client_sample_weight, 1), sender_jain_index < 1.1 / client_subflows)) AS on_one_subflow
FROM mpwatch.pairs
WHERE client_subflows > 1 AND sender_jain_index IS NOT NULL
  AND client_began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
GROUP BY client_host, server_host, subflows
ORDER BY jain_p50, client_host, server_host, subflows
LIMIT 100

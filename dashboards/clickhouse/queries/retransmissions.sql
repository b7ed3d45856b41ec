-- Which paths lose packets? Retransmitted bytes as a share of the sent bytes, by host, interface and remote address.
SELECT host, interface, remote_ip, round(sum(ifNull(sample_weight, 1))) AS subflows,
       round(sum(sent * ifNull(sample_weight, 1)) / 1e9, 3) AS sent_gb,
       round(sum(retransmitted * ifNull(sample_weight, 1)) / sum(sent * ifNull(sample_weight, 1)), 5) AS retransmitted_ratio,
       round(sum(timeouts * ifNull(sample_weight, 1))) AS timeouts
FROM mpwatch.ends FINAL
ARRAY JOIN subflow.interface AS interface, subflow.remote_ip AS remote_ip, subflow.bytes_sent AS sent,
           subflow.bytes_retransmitted AS retransmitted, subflow.timeouts AS timeouts
WHERE began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
GROUP BY host, interface, remote_ip
HAVING sum(sent) > 0
ORDER BY retransmitted_ratio DESC, host, interface, remote_ip
LIMIT 100

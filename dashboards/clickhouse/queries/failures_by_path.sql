-- Which paths fail? Subflows that did not end with a FIN and were not removed on purpose, or whose path had failed at the end: the kernel received
-- no acknowledgements and reinjected their data on other subflows. By host, interface and remote address.
SELECT host, interface, remote_ip, round(sum(ifNull(sample_weight, 1))) AS subflows,
       round(sumIf(ifNull(sample_weight, 1), failure IS NOT NULL)) AS failures,
       round(failures / subflows, 4) AS failure_ratio,
       topKIf(1)(failure, failure IS NOT NULL)[1] AS most_frequent
FROM (
    SELECT host, sample_weight, interface, remote_ip,
           if(close_reason IN ('timeout', 'unreachable', 'reset_sent', 'reset_received'), close_reason, if(progress = 'failed', 'no_acknowledgements', NULL)) AS failure
    FROM mpwatch.ends FINAL
    ARRAY JOIN subflow.interface AS interface, subflow.remote_ip AS remote_ip, subflow.close_reason AS close_reason, subflow.progress AS progress
    WHERE began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
)
GROUP BY host, interface, remote_ip
HAVING failures > 0
ORDER BY failures DESC, host, interface, remote_ip
LIMIT 100

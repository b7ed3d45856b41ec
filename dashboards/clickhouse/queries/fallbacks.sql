-- Where does MPTCP fall back to TCP? By reason, host and remote address.
SELECT host, remote_ip, fallback AS reason, round(sum(ifNull(sample_weight, 1))) AS connections
FROM mpwatch.ends FINAL
WHERE fallback IS NOT NULL AND began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
GROUP BY host, remote_ip, reason
ORDER BY connections DESC, host, remote_ip, reason
LIMIT 100

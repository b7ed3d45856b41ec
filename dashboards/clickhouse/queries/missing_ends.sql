-- Which hosts do not report? Connections with one end only, by the host that reports and the address of the other host.
SELECT if(ends = 1, client_host, server_host) AS host,
       if(ends = 1, client_remote_ip, server_remote_ip) AS missing_ip,
       if(ends = 1, 'server', 'client') AS missing_end,
       round(sum(ifNull(ifNull(client_sample_weight, server_sample_weight), 1))) AS connections
FROM mpwatch.pairs
WHERE ends != 3
  AND ifNull(client_began_ns, server_began_ns) >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
GROUP BY host, missing_ip, missing_end
ORDER BY connections DESC, host, missing_ip
LIMIT 100

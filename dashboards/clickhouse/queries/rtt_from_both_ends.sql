-- RTT of each subflow, measured at both ends, by path. Both measure the whole round trip; a difference is time inside a host, or delayed
-- acknowledgements. Only subflows on which both ends sent at least 100 kB: an end that only receives measures the RTT of the handshake
-- alone, without the queue of the transfer. The ends of a subflow are matched by their swapped addresses, so address translation hides them.
SELECT c.host AS client_host, s.host AS server_host, c.interface AS client_interface, s.interface AS server_interface,
       count() AS subflows,
       round(quantile(0.5)(c.srtt_us) / 1e3, 3) AS client_ms,
       round(quantile(0.5)(s.srtt_us) / 1e3, 3) AS server_ms,
       round(quantile(0.5)(c.srtt_us - s.srtt_us) / 1e3, 3) AS difference_ms
FROM (
    SELECT pair, host, local_ip, local_port, remote_ip, remote_port, interface, srtt_us
    FROM mpwatch.ends FINAL
    ARRAY JOIN subflow.local_ip AS local_ip, subflow.local_port AS local_port, subflow.remote_ip AS remote_ip,
               subflow.remote_port AS remote_port, subflow.interface AS interface, subflow.srtt_us AS srtt_us,
               subflow.bytes_sent AS sent
    WHERE role = 'client' AND srtt_us > 0 AND sent >= 100000 AND began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
) AS c
INNER JOIN (
    SELECT pair, host, local_ip, local_port, remote_ip, remote_port, interface, srtt_us
    FROM mpwatch.ends FINAL
    ARRAY JOIN subflow.local_ip AS local_ip, subflow.local_port AS local_port, subflow.remote_ip AS remote_ip,
               subflow.remote_port AS remote_port, subflow.interface AS interface, subflow.srtt_us AS srtt_us,
               subflow.bytes_sent AS sent
    WHERE role = 'server' AND srtt_us > 0 AND sent >= 100000 AND began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
) AS s ON c.pair = s.pair AND c.local_ip = s.remote_ip AND c.local_port = s.remote_port
      AND c.remote_ip = s.local_ip AND c.remote_port = s.local_port
GROUP BY client_host, server_host, client_interface, server_interface
ORDER BY abs(difference_ms) DESC, client_host, server_host, client_interface
LIMIT 100

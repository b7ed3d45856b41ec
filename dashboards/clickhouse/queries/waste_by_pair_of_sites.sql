-- Which pairs of sites waste energy on extra subflows? An extra subflow shares a bottleneck with another subflow of its connection, by the
-- verdict of the end that sent more. Its energy at both ends is estimated by its share of the subflows. A site is the label `site` of the daemon, otherwise the site of its network
-- (table `sites`), otherwise the host.
SELECT ifNull(pairs.client_site, client_host) AS client_site,
       ifNull(pairs.server_site, server_host) AS server_site,
       round(sum(ifNull(client_sample_weight, 1))) AS connections,
       round(sum(sender_extra_subflows * ifNull(client_sample_weight, 1))) AS extra_subflows,
       round(sum((client_active_uj + server_active_uj) * ifNull(client_sample_weight, 1)) / 1e6, 3) AS joules,
       round(sum((client_active_uj + server_active_uj) * sender_extra_subflows / client_subflows * ifNull(client_sample_weight, 1)) / 1e6, 3) AS wasted_joules
FROM mpwatch.pairs
WHERE ends = 3 AND client_began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
  AND sender_extra_subflows IS NOT NULL AND client_subflows > 0 AND client_active_uj IS NOT NULL AND server_active_uj IS NOT NULL
GROUP BY client_site, server_site
ORDER BY wasted_joules DESC, client_site, server_site
LIMIT 100

-- Which interfaces lead into one bottleneck? Verdicts on pairs of subflows, by host and the two interfaces.
SELECT host,
       least(of_a, of_b) AS interface_a,
       greatest(of_a, of_b) AS interface_b,
       count() AS pairs,
       countIf(verdict = 'shared') AS shared,
       countIf(verdict = 'disjoint') AS disjoint,
       round(avgIf(probability, verdict = 'shared'), 3) AS mean_probability
FROM (
    SELECT host, ifNull(subflow.interface[indexOf(subflow.id, a)], '') AS of_a, ifNull(subflow.interface[indexOf(subflow.id, b)], '') AS of_b,
           verdict, probability
    FROM mpwatch.ends FINAL
    ARRAY JOIN bottleneck.a AS a, bottleneck.b AS b, bottleneck.verdict AS verdict, bottleneck.probability AS probability
    WHERE began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
)
GROUP BY host, interface_a, interface_b
ORDER BY shared DESC, host, interface_a, interface_b
LIMIT 100

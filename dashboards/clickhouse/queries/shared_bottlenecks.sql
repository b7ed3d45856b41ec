-- Which interfaces lead into one bottleneck? Verdicts on pairs of subflows, by host and the two interfaces.
SELECT host,
       arrayElement(interfaces, indexOf(subflows, a)) AS interface_a,
       arrayElement(interfaces, indexOf(subflows, b)) AS interface_b,
       count() AS pairs,
       countIf(verdict = 'shared') AS shared,
       countIf(verdict = 'disjoint') AS disjoint,
       round(avgIf(probability, verdict = 'shared'), 3) AS mean_probability
FROM (
    SELECT host, subflow.id AS subflows, subflow.interface AS interfaces, a, b, verdict, probability
    FROM mpwatch.ends FINAL
    ARRAY JOIN bottleneck.a AS a, bottleneck.b AS b, bottleneck.verdict AS verdict, bottleneck.probability AS probability
    WHERE began_ns >= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000
)
GROUP BY host, interface_a, interface_b
ORDER BY shared DESC, host, interface_a, interface_b
LIMIT 100

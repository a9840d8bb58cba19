-- One row for each person. Every private table has person_id, joins equate it, and groups have it.
WITH v AS (
  SELECT v.person_id,
    COUNT(*) AS visits,
    COUNT(*) FILTER (WHERE c.chronic) AS chronic,
    COUNT(*) FILTER (WHERE d.weekend) AS weekend,
    COUNT(DISTINCT c.chapter) AS chapters,
    AVG(LEAST(GREATEST(v.cost, 0), 1000)) AS mean_cost,
    ARG_MAX(c.chapter, v.day) AS last_chapter
  FROM hospital.visits v
  LEFT JOIN hospital.codes c ON v.code = c.code
  LEFT JOIN hospital.calendar d ON v.day = d.day
  GROUP BY v.person_id
), r AS (
  SELECT r.person_id, COUNT(*) AS prescriptions, SUM(r.dose) AS dose
  FROM hospital.prescriptions r
  GROUP BY r.person_id
)
SELECT p.person_id, p.age, p.sex, p.ill,
  COALESCE(v.visits, 0) AS visits, COALESCE(v.chronic, 0) AS chronic, COALESCE(v.weekend, 0) AS weekend,
  COALESCE(v.chapters, 0) AS chapters, v.mean_cost, v.last_chapter,
  COALESCE(r.prescriptions, 0) AS prescriptions, COALESCE(r.dose, 0) AS dose
FROM hospital.persons p
LEFT JOIN v ON p.person_id = v.person_id
LEFT JOIN r ON p.person_id = r.person_id

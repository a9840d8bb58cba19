-- Five tables of synthetic people, in SQL that DuckDB and PostgreSQL both read. The marks are numbers of rows.
-- Numbers that look random are remainders of large products (Lehmer's method), the same on every database.
CREATE SCHEMA hospital;

CREATE TABLE hospital.persons (person_id BIGINT PRIMARY KEY, age INTEGER, sex VARCHAR, ill VARCHAR);
CREATE TABLE hospital.visits (person_id BIGINT, day DATE, code VARCHAR, cost DOUBLE PRECISION);
CREATE TABLE hospital.prescriptions (person_id BIGINT, day DATE, dose INTEGER);
CREATE TABLE hospital.codes (code VARCHAR PRIMARY KEY, chapter VARCHAR, chronic BOOLEAN);
CREATE TABLE hospital.calendar (day DATE PRIMARY KEY, weekend BOOLEAN);

INSERT INTO hospital.codes
SELECT CONCAT('K', k), CONCAT('chapter ', MOD(k, 8)), MOD(k, 4) = 0
FROM GENERATE_SERIES(0, 199) AS numbers(k);

INSERT INTO hospital.calendar
SELECT DATE '2023-01-01' + CAST(k AS INTEGER), MOD(k, 7) IN (0, 6)
FROM GENERATE_SERIES(0, 729) AS numbers(k);

-- People with small numbers are frail: they have more visits, and are ill more often.
INSERT INTO hospital.persons
SELECT i,
  18 + CAST(FLOOR(70 * MOD(i * 1103515245, 2147483647) / 2147483647.0) AS INTEGER),
  CASE WHEN MOD(i * 1812433253, 2147483647) < 1073741823 THEN 'f' ELSE 'm' END,
  CASE WHEN 0.5 * (1 - i / CAST(size.n AS DOUBLE PRECISION)) + 0.2 * MOD(i * 1103515245, 2147483647) / 2147483647.0
    + 0.3 * MOD(i * 1292371547, 2147483647) / 2147483647.0 > 0.5 THEN 'yes' ELSE 'no' END
FROM (SELECT CAST(? AS BIGINT) AS n) AS size, GENERATE_SERIES(1, CAST(? AS BIGINT)) AS numbers(i);

INSERT INTO hospital.visits
SELECT 1 + CAST(FLOOR(size.n * POWER(MOD(j * 1566083941, 2147483647) / 2147483647.0, 2)) AS BIGINT),
  DATE '2023-01-01' + CAST(MOD(MOD(j * 1103515245, 2147483647), 730) AS INTEGER),
  CONCAT('K', MOD(MOD(j * 1812433253, 2147483647), 205)),
  20 + 480 * MOD(j * 1292371547, 2147483647) / 2147483647.0
FROM (SELECT CAST(? AS BIGINT) AS n) AS size, GENERATE_SERIES(1, CAST(? AS BIGINT)) AS numbers(j);

INSERT INTO hospital.prescriptions
SELECT 1 + CAST(FLOOR(size.n * POWER(MOD(j * 1181783497, 2147483647) / 2147483647.0, 1.5)) AS BIGINT),
  DATE '2023-01-01' + CAST(MOD(MOD(j * 1103515245, 2147483647), 730) AS INTEGER),
  CAST(1 + MOD(MOD(j * 1566083941, 2147483647), 10) AS INTEGER)
FROM (SELECT CAST(? AS BIGINT) AS n) AS size, GENERATE_SERIES(1, CAST(? AS BIGINT)) AS numbers(j);

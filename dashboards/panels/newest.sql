SELECT max(time) AS newest
FROM {raw}

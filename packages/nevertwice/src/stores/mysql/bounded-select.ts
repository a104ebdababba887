/** The beginning of every query that is not about single records. */

/** The server ends such a query after two seconds: payments need the connection. The first form is MariaDB's. */
export const BOUNDED_SELECT =
  "/*M! SET STATEMENT max_statement_time = 2 FOR */ SELECT /*+ MAX_EXECUTION_TIME(2000) */";

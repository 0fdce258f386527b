import java.sql.*;

/** Reads an access log by PostgreSQL's JDBC driver. Arguments: URL of the database, number of events. */
public class Jdbc {
    public static void main(String[] arguments) throws SQLException {
        long events = Long.parseLong(arguments[1]);
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            tables(connection);
            connection.setAutoCommit(false);
            // From its sixth use on, the driver keeps a statement at the server.
            for (int use = 0; use < 8; use++) {
                pieces(connection, events);
            }
            error(connection);
        }
        System.out.println("ok jdbc");
    }

    static void tables(Connection connection) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        try (ResultSet columns = data.getColumns(null, "public", "access", "status")) {
            check(columns.next(), "access.status is listed");
            check(columns.getString("TYPE_NAME").equals("int2"), "its type is int2");
        }
        boolean found = false;
        try (ResultSet tables = data.getTables(null, "stats", "%", new String[] {"TABLE"})) {
            while (tables.next()) {
                found |= tables.getString("TABLE_NAME").equals("hourly");
            }
        }
        check(found, "stats.hourly is listed");
    }

    /** Reads all events in pieces of 250 rows: a portal that is executed again and again. */
    static void pieces(Connection connection, long events) throws SQLException {
        String sql = "SELECT host, status, time FROM access WHERE status >= ? ORDER BY time LIMIT ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setInt(1, 100);
            statement.setLong(2, events + 1);
            statement.setFetchSize(250);
            long rows = 0;
            Timestamp last = new Timestamp(0);
            try (ResultSet read = statement.executeQuery()) {
                while (read.next()) {
                    check(!read.getTimestamp(3).before(last), "times ascend");
                    last = read.getTimestamp(3);
                    rows++;
                }
            }
            check(rows == events, rows + " rows instead of " + events);
        }
    }

    static void error(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT nothing FROM access");
            check(false, "an unknown column is an error");
        } catch (SQLException error) {
            check(error.getSQLState().equals("42703"), error.getSQLState());
        }
        connection.rollback();
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}

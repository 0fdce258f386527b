SELECT {visitors} AS visitors
FROM {events(visitors_state)}

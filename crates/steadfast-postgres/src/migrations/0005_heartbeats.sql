-- The last words of the dispatchers that deliver from this schema, for as long as they count. Each is written once a second
-- while there is something to deliver, and nothing else depends on it.
CREATE TABLE {schema}.heartbeat (
    at_ms      bigint NOT NULL,
    until_ms   bigint NOT NULL,
    account    text   COLLATE "C" NOT NULL, -- namespace, vendor and account
    dispatcher text   COLLATE "C" NOT NULL,
    says       text   NOT NULL,
    PRIMARY KEY (account, dispatcher)
) WITH (fillfactor = 50);

-- The sequences that a rejected row holds. Nearly always empty.
CREATE INDEX steadfast_outbox_holding ON steadfast_outbox (namespace, vendor, account, sequence, number)
WHERE rejected_at_ms IS NOT NULL AND on_dead_letter = 'hold' AND sequence IS NOT NULL;

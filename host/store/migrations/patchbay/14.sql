-- What a person allowed for the call without a grant. JSON: a list of capability, answer and by; NULL for nothing.
ALTER TABLE calls ADD COLUMN approvals TEXT;

-- Replaces the metadata.
-- ARGV  1 seconds to live (below 0: none)  2 nonce of this call  3 version that it has to have (below 0: any)
--       4 messages that it has to have at least  5 metadata as JSON
-- Gives {OK, new version, 1 if this made the context} | {CONFLICT, version, messages} | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
local head = redis.call('HMGET', KEYS[1], 'version', 'nonce', 'total')
local version, expected = tonumber(head[1] or 0), tonumber(ARGV[3])
-- A call that arrives twice has changed it before.
if head[2] == ARGV[2] then return { OK, version, 0 } end
local total = tonumber(head[3] or 0)
if total < tonumber(ARGV[4]) or (expected >= 0 and expected ~= version) then return { CONFLICT, version, total } end
redis.call('HSET', KEYS[1], 'metadata', ARGV[5], 'version', version + 1, 'nonce', ARGV[2])
return { OK, version + 1, changed(ARGV[1]) }

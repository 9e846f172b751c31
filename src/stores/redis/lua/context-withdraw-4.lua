-- Removes the registration of a turn that never ran, while it is open.
-- ARGV  1 seconds to live (below 0: none)  2 task id
-- Gives {OK, 0, 1 if this made the context} | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
if redis.call('HGET', KEYS[3], ARGV[2]) ~= 'open' then return { OK, 0, 0 } end
redis.call('HDEL', KEYS[3], ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[2])
return { OK, 0, changed(ARGV[1]) }

-- Removes the registration of a turn that never ran, while it is open; the context, too, where it has nothing else.
-- ARGV  1 seconds to live (below 0: none)  2 task id
-- Gives {OK, 1 if the context is gone, 1 if this made the context} | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
if redis.call('HGET', KEYS[3], ARGV[2]) ~= 'open' then return { OK, 0, 0 } end
redis.call('HDEL', KEYS[3], ARGV[2])
redis.call('ZREM', KEYS[4], ARGV[2])
local rest = redis.call('HMGET', KEYS[1], 'version', 'agentId')
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 and tonumber(rest[1] or 0) == 0 and not rest[2] then
  redis.call('UNLINK', unpack(KEYS))
  return { OK, 1, 0 }
end
return { OK, 0, changed(ARGV[1]) }

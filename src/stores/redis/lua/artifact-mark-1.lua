-- Puts an artifact into the list of a task or a context, which lives at least as long as it.
-- ARGV  1 seconds to live (below 0: none)  2 artifact id
-- Gives {0}
local remaining = redis.call('TTL', KEYS[1])
redis.call('ZADD', KEYS[1], 0, ARGV[2])
if tonumber(ARGV[1]) < 0 then
  redis.call('PERSIST', KEYS[1])
-- -1: it stays for good; -2: it was not there.
elseif remaining ~= -1 and remaining < tonumber(ARGV[1]) then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return { 0 }

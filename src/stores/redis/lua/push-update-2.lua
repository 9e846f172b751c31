-- Records what came of a delivery.
-- KEYS  1 those that are due  2 those of the task
-- ARGV  1 id  2 task id  3 owner  4 held, parked or over  5 for how long, ms  6 cursor, or nothing  7 seconds to live (below 0: none)
-- Gives {1} | {0} where somebody else holds it, or it is gone
local id = ARGV[1]
if redis.call('HGET', KEYS[2], 'o:' .. id) ~= ARGV[3] then return { 0 } end
if ARGV[6] ~= '' then redis.call('HSET', KEYS[2], 'c:' .. id, ARGV[6]) end
if ARGV[4] ~= 'held' then redis.call('HDEL', KEYS[2], 'o:' .. id) end
local member = ARGV[2] .. ' ' .. id
if ARGV[4] == 'over' then redis.call('ZREM', KEYS[1], member) else redis.call('ZADD', KEYS[1], now() + ARGV[5], member) end
keep(KEYS[2], ARGV[7])
return { 1 }

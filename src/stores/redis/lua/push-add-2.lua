-- Adds or replaces a registration, due now.
-- KEYS  1 those that are due  2 those of the task
-- ARGV  1 id  2 task id  3 registration  4 the most of a task  5 seconds to live (below 0: none)
-- Gives {1} | {0} where the task has as many
local others = 0
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  if field:sub(1, 2) == 'e:' and field ~= 'e:' .. ARGV[1] then others = others + 1 end
end
if others >= tonumber(ARGV[4]) then return { 0 } end
redis.call('HDEL', KEYS[2], 'o:' .. ARGV[1], 'c:' .. ARGV[1])
redis.call('HSET', KEYS[2], 'e:' .. ARGV[1], ARGV[3])
keep(KEYS[2], ARGV[5])
redis.call('ZADD', KEYS[1], now(), ARGV[2] .. ' ' .. ARGV[1])
return { 1 }

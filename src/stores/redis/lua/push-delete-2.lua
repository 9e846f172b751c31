-- Forgets a registration.
-- KEYS  1 those that are due  2 those of the task
-- ARGV  1 id  2 task id
-- Gives {1}
redis.call('HDEL', KEYS[2], 'e:' .. ARGV[1], 'o:' .. ARGV[1], 'c:' .. ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[2] .. ' ' .. ARGV[1])
return { 1 }

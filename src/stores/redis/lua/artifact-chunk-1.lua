-- Adds a chunk to a draft, whose only key this is.
-- ARGV  1 seconds that a draft is kept which nobody writes to  2 number of the chunk, from 0  3 its bytes
-- Gives {0}
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return { 0 }

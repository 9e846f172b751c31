-- Registers a turn that starts, unless its messages are here.
-- ARGV  1 seconds to live (below 0: none)  2 task id
-- Gives {OK, 1 if its messages are here, 1 if this made the context} | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
local turn = redis.call('HGET', KEYS[3], ARGV[2])
if turn then return { OK, turn == 'open' and 0 or 1, 0 } end
redis.call('HSET', KEYS[3], ARGV[2], 'open')
redis.call('ZADD', KEYS[4], redis.call('HINCRBY', KEYS[1], 'begun', 1), ARGV[2])
return { OK, 0, changed(ARGV[1]) }

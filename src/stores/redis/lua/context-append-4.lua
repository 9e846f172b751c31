-- Puts the messages of a turn behind those that are here and settles the turn, once.
-- ARGV  1 seconds to live (below 0: none)  2 task id  3 nonce of this call  4 the agent that answers next ('': it stays)
--       5 1 if the turn has to be registered  6… messages as JSON
-- Gives {OK, 1 if this call appended them, 1 if this made the context} | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
local turn = redis.call('HGET', KEYS[3], ARGV[2])
if turn and turn ~= 'open' then return { OK, turn == ARGV[3] and 1 or 0, 0 } end
if not turn and ARGV[5] == '1' then return { OK, 0, 0 } end
-- Lua unpacks some thousands at most.
for first = 6, #ARGV, 1000 do
  redis.call('RPUSH', KEYS[2], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
-- Contexts of older versions do not count.
if redis.call('HEXISTS', KEYS[1], 'bytes') == 1 or redis.call('LLEN', KEYS[2]) == #ARGV - 5 then
  local bytes = 0
  for number = 6, #ARGV do bytes = bytes + #ARGV[number] end
  redis.call('HINCRBY', KEYS[1], 'bytes', bytes)
end
redis.call('HINCRBY', KEYS[1], 'total', #ARGV - 5)
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
redis.call('ZREM', KEYS[4], ARGV[2])
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'agentId', ARGV[4]) end
return { OK, 1, changed(ARGV[1]) }

-- Sets the agent that answers next.
-- ARGV  1 seconds to live (below 0: none)  2 agent id
-- Gives {OK, 0, 1 if this made the context} | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
redis.call('HSET', KEYS[1], 'agentId', ARGV[2])
return { OK, 0, changed(ARGV[1]) }

-- Leaves a command for the owner of a turn. The same id again does nothing.
-- KEYS  1 head  2 commands  3 ids of commands
-- ARGV  1 id  2 command as JSON
-- Gives {OK} | {NOT_FOUND} | {TERMINAL}
local head = redis.call('HMGET', KEYS[1], 'ended', 'bytes')
if not head[1] then return { NOT_FOUND } end
if head[1] == '1' then return { TERMINAL } end
if redis.call('SADD', KEYS[3], ARGV[1]) == 0 then return { OK } end
if head[2] then redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[2]) end
redis.call('XADD', KEYS[2], whole(redis.call('XLEN', KEYS[2]) + 1) .. '-0', 'c', ARGV[2])
keepAsHead(KEYS[2])
keepAsHead(KEYS[3])
return { OK }

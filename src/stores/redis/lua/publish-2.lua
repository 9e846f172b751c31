-- Adds a batch of deltas to the side stream, after the journal's last record. Drops it where it comes from an older owner, came
-- before, or nobody may see it any more. The stream is capped, but the deltas of an open model call stay.
-- KEYS  1 head  2 deltas
-- ARGV  1 epoch  2 number of the batch, rising within an epoch  3 most batches to keep  4 deltas as JSON
-- Gives {OK}
local head = redis.call('HMGET', KEYS[1], 'epoch', 'ended', 'open', 'seq', 'batch')
if head[1] ~= ARGV[1] or head[2] == '1' or tonumber(head[5]) >= tonumber(ARGV[2]) then return { OK } end
redis.call('HSET', KEYS[1], 'batch', ARGV[2])
redis.call('XADD', KEYS[2], head[4] .. '-*', 'd', ARGV[4])
if redis.call('XLEN', KEYS[2]) > tonumber(ARGV[3]) then
  if head[3] == '0' then
    redis.call('XTRIM', KEYS[2], 'MAXLEN', ARGV[3])
  else
    redis.call('XTRIM', KEYS[2], 'MINID', head[3] .. '-0')
  end
end
keepAsHead(KEYS[2])
return { OK }

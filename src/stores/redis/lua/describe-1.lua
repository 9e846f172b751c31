-- What a list says of a task.
-- KEYS  1 head
-- Gives {OK, contextId, agentId, status, seq, createdAt, updatedAt, 1 if somebody holds an unexpired lease, statusAt,
--        the parent turn or '', bytes or '', until when the turn backs off in ms or 0} | {NOT_FOUND}
local head = redis.call('HMGET', KEYS[1], 'contextId', 'agentId', 'status', 'seq', 'createdAt', 'updatedAt', 'owner',
  'expires', 'statusAt', 'parent', 'bytes', 'due')
if not head[1] then return { NOT_FOUND } end
local held = head[7] ~= '' and tonumber(head[8]) > now()
return { OK, head[1], head[2], head[3], tonumber(head[4]), head[5], head[6], held and 1 or 0, head[9] or head[5], head[10] or '',
  head[11] or '', head[12] or 0 }

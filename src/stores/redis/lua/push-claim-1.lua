-- Takes registrations that are due: those of a task also before their time, where nobody holds them.
-- KEYS  1 those that are due
-- ARGV  1 what the keys of tasks begin with  2 owner  3 length of the lease, ms  4 the most  5 task id, or nothing  6 seconds to live (below 0: none)
-- Gives {registration, cursor or nothing, ...}
local at = now()
local members = {}
if ARGV[5] == '' then
  members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', at, 'LIMIT', 0, ARGV[4])
else
  local key = ARGV[1] .. ARGV[5]
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local id = field:sub(3)
    local member = ARGV[5] .. ' ' .. id
    local due = field:sub(1, 2) == 'e:' and redis.call('ZSCORE', KEYS[1], member)
    local free = due and (tonumber(due) <= at or redis.call('HEXISTS', key, 'o:' .. id) == 0)
    if free and #members < tonumber(ARGV[4]) then members[#members + 1] = member end
  end
end
local taken = {}
for _, member in ipairs(members) do
  local task, id = member:match('^(%S+) (.+)$')
  local key = ARGV[1] .. task
  local entry, cursor = unpack(redis.call('HMGET', key, 'e:' .. id, 'c:' .. id))
  if entry then
    redis.call('HSET', key, 'o:' .. id, ARGV[2])
    keep(key, ARGV[6])
    redis.call('ZADD', KEYS[1], at + ARGV[3], member)
    taken[#taken + 1] = entry
    taken[#taken + 1] = cursor or ''
  else
    redis.call('ZREM', KEYS[1], member)
  end
end
return taken

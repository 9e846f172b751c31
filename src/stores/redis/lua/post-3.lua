-- Leaves a command for the owner of a turn. The same id again does nothing.
-- KEYS  1 head  2 commands  3 ids of commands
-- ARGV  1 id  2 command as JSON  3 how many commands the task may have (below 0: any number)
-- Gives {OK, the command that stands under the id as JSON, '' where there are too many} | {NOT_FOUND} | {TERMINAL}
local head = redis.call('HMGET', KEYS[1], 'ended', 'bytes')
if not head[1] then return { NOT_FOUND } end
if head[1] == '1' then return { TERMINAL } end

-- Versions before 0.2 kept the ids in a set, which does not tell the number of a command.
if redis.call('TYPE', KEYS[3]).ok == 'set' then
  local numbers = {}
  for number, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+')) do
    local ok, command = pcall(cjson.decode, entry[2][2])
    if ok then numbers[#numbers + 1] = { number, command.id } end
  end
  redis.call('DEL', KEYS[3])
  for _, each in ipairs(numbers) do redis.call('ZADD', KEYS[3], each[1], each[2]) end
end

local before = redis.call('ZSCORE', KEYS[3], ARGV[1])
if before then
  local id = whole(tonumber(before)) .. '-0'
  local entry = redis.call('XRANGE', KEYS[2], id, id)[1]
  return { OK, entry and entry[2][2] or ARGV[2] }
end
local number = redis.call('XLEN', KEYS[2]) + 1
if tonumber(ARGV[3]) >= 0 and number > tonumber(ARGV[3]) then return { OK, '' } end
redis.call('ZADD', KEYS[3], number, ARGV[1])
if head[2] then redis.call('HINCRBY', KEYS[1], 'bytes', #ARGV[2]) end
redis.call('XADD', KEYS[2], whole(number) .. '-0', 'c', ARGV[2])
keepAsHead(KEYS[2])
keepAsHead(KEYS[3])
return { OK, ARGV[2] }

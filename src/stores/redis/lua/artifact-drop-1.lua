-- Drops the oldest versions.
-- ARGV  1 how many stay
-- Gives {OK} | {SCHEMA, layout}
local refused = flaw()
if refused then return refused end
local first, newest = range()
while newest - first >= tonumber(ARGV[1]) do
  local content = contentOf(first)
  -- Only neighbours share a content.
  if content ~= contentOf(first + 1) then redis.call('UNLINK', contentKey(content)) end
  redis.call('HDEL', KEYS[1], 'v' .. first, 'c' .. first, 's' .. first)
  first = first + 1
  redis.call('HSET', KEYS[1], 'first', first)
end
return { OK }

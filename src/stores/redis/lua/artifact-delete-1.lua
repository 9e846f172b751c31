-- Forgets an artifact with all its versions.
-- Gives {OK}
local first, newest = range()
for number = first, newest do
  local content = contentOf(number)
  if content then redis.call('UNLINK', contentKey(content)) end
end
redis.call('UNLINK', KEYS[1])
return { OK }


local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function keep(key, seconds)
  if tonumber(seconds) < 0 then redis.call('PERSIST', key) else redis.call('EXPIRE', key, seconds) end
end


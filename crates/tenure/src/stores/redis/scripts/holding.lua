-- Whether the lock is this owner's, and the grant the one with this number, if it is given.
local function is_of(secret, number)
  if owner ~= secret then return false end
  local known = owner .. '\n' .. number .. '\n'
  return number == '' or (record and string.sub(record, 1, #known) == known)
end

-- Never shorter: a lock without end stays one, and a later end stays later.
-- The order matters: a PEXPIRE needs no memory, and after its first write a script is not refused
-- another for want of it. So this does all or nothing.
local function prolong(wanted)
  if left >= 0 and left < wanted then
    left = wanted
    redis.call('PEXPIRE', lock, wanted)
  end
  if not record then return end
  local ends = string.format('%.0f', math.max(left, wanted))
  local head, ttl, tail = string.match(record, '^([^\n]*\n%d+\n)(%d+)(\n.*)$')
  if head and tonumber(ttl) < wanted then
    record = head .. string.format('%.0f', wanted) .. tail
    redis.call('SET', beside, record, 'PX', ends)
  else
    redis.call('PEXPIRE', beside, ends)
  end
end

-- Wireshark dissector for Datacast: the header, the route of an interest, the payload.
--
--   tshark -X lua_script:libdatacast/tools/datacast.lua -r capture.pcap -V
--   cp libdatacast/tools/datacast.lua ~/.local/lib/wireshark/plugins/       for Wireshark itself
--
-- The numbers are those of libdatacast/wire.yaml; a test holds this file against the golden frames.

local datacast = Proto("datacast", "Datacast")

local TYPES = { [1] = "interest", [2] = "data", [3] = "hello" }
local LOCAL, ADJ, PORTS = 1000, 1024, 256
local ETHERTYPE, HELLO = 0x88b5, 0x88b6

local f = datacast.fields
f.version = ProtoField.uint8("datacast.version", "Version", base.DEC, nil, 0xf0)
f.type = ProtoField.uint8("datacast.type", "Type", base.DEC, TYPES, 0x0f)
f.flags = ProtoField.uint8("datacast.flags", "Flags", base.HEX)
f.retx = ProtoField.bool("datacast.flags.retx", "RETX", 8, nil, 0x01)
f.dup = ProtoField.bool("datacast.flags.dup", "DUP", 8, nil, 0x02)
f.nocache = ProtoField.bool("datacast.flags.nocache", "NOCACHE", 8, nil, 0x04)
f.last = ProtoField.bool("datacast.flags.last", "LAST", 8, nil, 0x08)
f.path = ProtoField.uint8("datacast.flags.path", "Code of what the path holds", base.DEC, nil, 0xf0)
f.length = ProtoField.uint16("datacast.length", "Length")
f.tree = ProtoField.uint32("datacast.tree", "Tree", base.HEX)
f.seq = ProtoField.uint32("datacast.seq", "Sequence number")
f.stops = ProtoField.uint8("datacast.stops", "Stops")
f.lag = ProtoField.uint8("datacast.lag", "Lag")
f.cache = ProtoField.uint8("datacast.cache", "Cache code")
f.more = ProtoField.uint8("datacast.more", "Numbers after the first")
f.stop = ProtoField.none("datacast.stop", "Stop")
f.store = ProtoField.bool("datacast.stop.store", "Stores", 8, nil, 0x01)
f.fwd_local = ProtoField.bool("datacast.stop.fwd_local", "Next is a waypoint", 8, nil, 0x02)
f.ret_local = ProtoField.bool("datacast.stop.ret_local", "Below is a waypoint", 8, nil, 0x04)
f.ret = ProtoField.uint16("datacast.stop.ret", "Return port")
f.fwd = ProtoField.uint16("datacast.stop.fwd", "Forward port")
f.payload = ProtoField.bytes("datacast.payload", "Payload")

local malformed = ProtoExpert.new("datacast.malformed", "Malformed Datacast packet", expert.group.MALFORMED, expert.severity.ERROR)
datacast.experts = { malformed }

-- One stop at `at`, at most `left` bytes; returns its length, or nil.
local function stop(tvb, at, left, tree)
  if left < 4 then return nil end
  local n_ret, n_fwd = tvb(at + 1, 1):uint(), tvb(at + 2, 1):uint()
  local len = 4 + 2 * (n_ret + n_fwd)
  if len > left then return nil end
  local branch = tree:add(f.stop, tvb(at, len))
  local ret, fwd = {}, {}
  branch:add(f.store, tvb(at, 1))
  branch:add(f.fwd_local, tvb(at, 1))
  branch:add(f.ret_local, tvb(at, 1))
  for i = 0, n_ret - 1 do
    branch:add(f.ret, tvb(at + 4 + 2 * i, 2))
    ret[#ret + 1] = tvb(at + 4 + 2 * i, 2):uint()
  end
  for i = n_ret, n_ret + n_fwd - 1 do
    branch:add(f.fwd, tvb(at + 4 + 2 * i, 2))
    fwd[#fwd + 1] = tvb(at + 4 + 2 * i, 2):uint()
  end
  branch:append_text(string.format(": back over [%s], on over [%s]", table.concat(ret, " "), table.concat(fwd, " ")))
  return len
end

function datacast.dissector(tvb, pinfo, root)
  if tvb:len() < 16 then return 0 end
  local kind, length = bit.band(tvb(0, 1):uint(), 15), tvb(2, 2):uint()
  local name = TYPES[kind] or string.format("type %d", kind)
  pinfo.cols.protocol = "Datacast"
  local seq, more = tvb(8, 4):uint(), tvb(15, 1):uint()
  local numbers = more == 0 and tostring(seq) or string.format("%u to %u", seq, seq + more)
  pinfo.cols.info = string.format("%s tree 0x%x seq %s", name, tvb(4, 4):uint(), numbers)

  local whole = math.min(16 + length, tvb:len())
  local tree = root:add(datacast, tvb(0, whole))
  tree:append_text(string.format(", %s, tree 0x%x, seq %s", name, tvb(4, 4):uint(), numbers))
  tree:add(f.version, tvb(0, 1))
  tree:add(f.type, tvb(0, 1))
  local flags = tree:add(f.flags, tvb(1, 1))
  for _, field in ipairs({ { f.retx, 1, "RETX" }, { f.dup, 2, "DUP" }, { f.nocache, 4, "NOCACHE" }, { f.last, 8, "LAST" } }) do
    flags:add(field[1], tvb(1, 1))
    if bit.band(tvb(1, 1):uint(), field[2]) ~= 0 then pinfo.cols.info:append(" " .. field[3]) end
  end
  flags:add(f.path, tvb(1, 1))
  tree:add(f.length, tvb(2, 2))
  tree:add(f.tree, tvb(4, 4))
  tree:add(f.seq, tvb(8, 4))
  tree:add(f.stops, tvb(12, 1))
  tree:add(f.lag, tvb(13, 1))
  tree:add(f.cache, tvb(14, 1))
  tree:add(f.more, tvb(15, 1))

  local good = 16 + length <= tvb:len()
  if kind == 1 then
    local at = 16
    for _ = 1, tvb(12, 1):uint() do
      local len = stop(tvb, at, whole - at, tree)
      if not len then good = false break end
      at = at + len
    end
    good = good and at == whole
  elseif whole > 16 then
    tree:add(f.payload, tvb(16, whole - 16))
  end
  if not good then tree:add_proto_expert_info(malformed) end
  return whole
end

DissectorTable.get("ethertype"):add(ETHERTYPE, datacast)
DissectorTable.get("ethertype"):add(HELLO, datacast)
-- Under the bottom label, whichever it is: LOCAL, or the last adjacency.
local labels = DissectorTable.get("mpls.label")
labels:add(LOCAL, datacast)
for port = 0, PORTS - 1 do labels:add(ADJ + port, datacast) end

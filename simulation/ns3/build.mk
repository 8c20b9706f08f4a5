# The witness: the core inside Debian's ns-3 (libns3-dev). pkg-config is not asked: ns-3.37's .pc files hold broken flags
# and name libraries that are not needed here.

NS3_DIR := simulation/ns3
NS3_OUT := $(BUILD)/simulation/ns3
NS3_OBJ := $(patsubst $(NS3_DIR)/src/%.cc,$(NS3_OUT)/%.o,$(wildcard $(NS3_DIR)/src/*.cc))
NS3_LIBS := $(addprefix -lns3-,applications internet point-to-point network core)
CXX := g++
NS3_CXXFLAGS := -std=c++17 -O2 -fno-strict-aliasing -Ilibdatacast/include -Wall -Wextra -Wshadow -Wpointer-arith -Werror

BINARIES += $(BUILD)/datacast-ns3

$(NS3_OUT)/%.o: $(NS3_DIR)/src/%.cc $(NS3_DIR)/build.mk
	@mkdir -p $(@D)
	@[ -e /usr/include/ns3/packet.h ] || { echo "ns-3 is missing: apt-get install libns3-dev" >&2; exit 1; }
	$(CXX) $(NS3_CXXFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/datacast-ns3: $(NS3_OBJ) $(BUILD)/libdatacast.a
	$(CXX) $^ $(NS3_LIBS) -o $@

-include $(NS3_OBJ:.o=.d)
